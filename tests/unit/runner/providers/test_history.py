from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.runner.attachment import FilePart
from manydesks.runner.providers.http_api.coding import Damaged, decode, encode
from manydesks.runner.providers.http_api.files import Files
from manydesks.runner.providers.http_api.history import FILE, History, Past
from manydesks.runner.providers.http_api.talk import Call, Entry, Exchange, File, Opaque, Part, Result, Words

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Words, text=TEXT),
    st.builds(File, digest=TEXT, name=TEXT, mime=TEXT, bytes=st.integers(0, 10**9)),
    st.builds(Call, id=TEXT, name=TEXT, arguments=st.dictionaries(TEXT, JSON, max_size=3) | TEXT),
    st.builds(Result, id=TEXT, ok=st.booleans(), text=TEXT),
    st.builds(Opaque, wire=TEXT, data=st.dictionaries(TEXT, JSON, max_size=3)),
)
ENTRIES = st.builds(
    Entry, role=st.sampled_from(["user", "model", "tools"]), parts=st.lists(PARTS, max_size=4).map(tuple)
)
EXCHANGES = st.builds(Exchange, entries=st.lists(ENTRIES, max_size=4).map(tuple), density=st.none() | st.floats(0.5, 8))


def said(text: str) -> Exchange:
    return Exchange(entries=(Entry(role="user", parts=(Words(text=text),)),))


@given(EXCHANGES)
def test_an_exchange_comes_back_as_it_was(exchange: Exchange) -> None:
    line = encode(exchange)
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == exchange


@given(EXCHANGES, st.data())
def test_a_damaged_line_is_never_anything_but_damaged(exchange: Exchange, data: st.DataObject) -> None:
    line = encode(exchange)[:-1]
    end = data.draw(st.integers(0, len(line) - 1))
    with pytest.raises(Damaged):
        decode(line[:end])


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"\xff",
        b'{"v":2,"density":null,"entries":[]}',
        b'{"v":1,"entries":[]}',
        b'{"v":1,"density":0,"entries":[]}',
        b'{"v":1,"density":null,"entries":7}',
        b'{"v":1,"density":null,"entries":[{"role":"host","parts":[]}]}',
        b'{"v":1,"density":null,"entries":[{"role":"user","parts":[{"type":"text"}]}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_exchange(line: bytes) -> None:
    with pytest.raises(Damaged):
        decode(line)


@given(st.lists(EXCHANGES, max_size=6), st.data())
def test_a_position_shows_what_was_there_and_cuts_off_the_rest(exchanges: list[Exchange], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        tokens: list[str | None] = [None, *(history.append(exchange) for exchange in exchanges)]
        if data.draw(st.booleans()):  # a crash in the middle of a line
            with (Path(folder) / FILE).open("ab") as file:
                file.write(encode(said("torn"))[: data.draw(st.integers(0, 20))])
        place = data.draw(st.integers(0, len(exchanges)))
        kept = tuple(exchanges[:place])
        assert history.read(tokens[place], 1 << 20) == Past(exchanges=kept)
        again = history.append(said("again"))
        assert history.read(again, 1 << 20) == Past(exchanges=(*kept, said("again")))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 600))
def test_of_a_long_past_the_end_is_read(lengths: list[int], most: int) -> None:
    exchanges = [said("x" * length) for length in lengths]
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        token = [history.append(exchange) for exchange in exchanges][-1]
        past = history.read(token, most)
        whole = sum(len(encode(exchange)) for exchange in exchanges) <= most
        assert past.exchanges == tuple(exchanges[len(exchanges) - len(past.exchanges) :])
        assert past.cut is not whole
        assert not whole or len(past.exchanges) == len(exchanges)
        assert sum(len(encode(exchange)) for exchange in past.exchanges) <= most


@pytest.mark.parametrize("continuation", ["history:7", "history:999999", "0a1b-claude-session", "history:-1"])
def test_a_position_that_is_none_is_a_new_beginning(tmp_path: Path, continuation: str) -> None:
    history = History(tmp_path)
    history.append(said("one"))
    past = history.read(continuation, 1 << 20)
    assert past.exchanges == ()
    token = history.append(said("two"))
    assert history.read(token, 1 << 20).exchanges == (said("two"),)


def test_a_line_that_rotted_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = History(tmp_path)
    tokens = [history.append(said(text)) for text in ("one", "two", "three")]
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(data.replace(b'"two"', b'"t\xffo"'))
    assert history.read(tokens[-1], 1 << 20) == Past(exchanges=(said("one"), said("three")), cut=True)
    assert "left out" in caplog.text


@pytest.mark.parametrize("kind", ["hard link", "link", "pipe", "folder"])
def test_only_a_plain_file_of_its_own_is_used(tmp_path: Path, kind: str) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "state"
    victim.write_text("precious")
    folder.mkdir()
    file = folder / FILE
    match kind:
        case "hard link":
            file.hardlink_to(victim)
        case "link":
            file.symlink_to(victim)
        case "pipe":
            os.mkfifo(file)
        case _:
            file.mkdir()
    with pytest.raises(OSError, match=FILE):
        History(folder).read(None, 100)
    with pytest.raises(OSError, match=FILE):
        History(folder).append(said("x"))
    assert victim.read_text() == "precious"


def test_a_folder_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        History(tmp_path / "gone").read(None, 100)


def test_the_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    History(tmp_path).append(said("secret plans"))
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def kept(file: File) -> Entry:
    return Entry(role="user", parts=(file,))


def test_files_are_kept_by_their_hash_and_pruned(tmp_path: Path) -> None:
    files = Files(tmp_path)
    one = files.keep(FilePart(mime="image/png", name="one", data=b"1" * 10))
    two = files.keep(FilePart(mime="image/png", name="two", data=b"2" * 10))
    assert files.keep(FilePart(mime="image/png", name="one", data=b"1" * 10)) == one
    assert set(files.contents([kept(one), kept(two)], {"image/png"})) == {one, two}
    assert files.contents([kept(one)], {"application/pdf"}) == {}
    files.prune([kept(two)])
    assert set(files.contents([kept(one), kept(two)], {"image/png"})) == {two}


def test_a_kept_file_that_changed_or_leads_elsewhere_is_not_sent(tmp_path: Path) -> None:
    files = Files(tmp_path)
    one = files.keep(FilePart(mime="image/png", name="one", data=b"1" * 10))
    place = tmp_path / "files" / one.digest
    place.write_bytes(b"1" * 5)
    assert files.contents([kept(one)], {"image/png"}) == {}
    place.unlink()
    os.mkfifo(place)
    assert files.contents([kept(one)], {"image/png"}) == {}
    outside = File(digest="../../etc/passwd", name="x", mime="image/png", bytes=1)
    assert files.contents([kept(outside)], {"image/png"}) == {}


def test_the_newest_files_have_the_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manydesks.runner.providers.http_api.files.MOST_TOGETHER", 25)
    files = Files(tmp_path)
    kept_files = [files.keep(FilePart(mime="image/png", name=str(n), data=bytes([n]) * 10)) for n in range(4)]
    assert set(files.contents([kept(file) for file in kept_files], {"image/png"})) == set(kept_files[2:])
