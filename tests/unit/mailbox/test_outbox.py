"""Files on their way out: nothing outside a folder is ever opened, whoever swaps what."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from manydesks.domain.attachment import MAX_FILE_BYTES
from manydesks.domain.errors import BadInput
from manydesks.mailbox import outbox


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session's folder; `secret` lies beside it, where no desk may look."""
    (tmp_path / "secret").write_text("the key")
    folder = tmp_path / "session"
    (folder / "out" / "outbox" / "out_1").mkdir(parents=True)
    (tmp_path / "files").mkdir()
    return folder


def read(root: Path, *parts: str) -> bytes:
    with outbox.opened(root, parts) as handle:
        return os.read(handle, 1000)


def test_a_file_below_the_folder_is_opened(session: Path) -> None:
    (session / "a").mkdir()
    (session / "a" / "b.txt").write_text("hello")
    assert read(session, "a", "b.txt") == b"hello"


@pytest.mark.parametrize("parts", [(), ("..", "secret"), ("a", "..", "b"), (".",), ("",), ("a/b",), ("a\0b",)])
def test_a_path_leads_straight_down(session: Path, parts: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="straight down"):
        read(session, *parts)


def test_links_are_not_followed_wherever_they_stand(session: Path) -> None:
    (session / "link").symlink_to(session.parent / "secret")
    (session / "up").symlink_to(session.parent)
    with pytest.raises(BadInput, match="'link' is a symbolic link"):
        read(session, "link")
    with pytest.raises(BadInput, match="'up' is a symbolic link"):
        read(session, "up", "secret")


def test_what_is_no_file_is_refused(session: Path) -> None:
    (session / "folder").mkdir()
    os.mkfifo(session / "pipe")
    with pytest.raises(BadInput, match="not a regular file"):
        read(session, "folder")
    with pytest.raises(BadInput, match="not a regular file"):
        read(session, "pipe")  # and it does not wait for a writer
    with pytest.raises(BadInput, match="there is no 'nothing'"):
        read(session, "nothing")


def test_what_is_too_large_is_refused(session: Path) -> None:
    with (session / "large").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(BadInput, match=f"at most {MAX_FILE_BYTES} can be sent"):
        read(session, "large")


def test_a_race_never_reads_beyond_the_folder(session: Path) -> None:
    """Somebody swaps a folder for a link to the outside as fast as it goes."""
    inside, outside = session / "inside", session.parent / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    link, stop = session / "link", threading.Event()
    link.symlink_to(outside)

    def swap() -> None:
        while not stop.is_set():
            inside.rename(session / "aside")
            link.rename(session / "inside")
            (session / "inside").rename(link)
            (session / "aside").rename(inside)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes] = set()
    refused = 0
    try:
        while refused < 50 or b"inside" not in seen:
            try:
                seen.add(read(session, "inside", "file"))
            except BadInput:
                refused += 1
    finally:
        stop.set()
        swapper.join()
    assert seen == {b"inside"}


def test_a_file_goes_out_and_is_taken_by_what_is_in_it(session: Path) -> None:
    (session / "report").write_bytes(b"x" * 3_000_000)
    with outbox.opened(session, ("report",)) as source:
        outbox.leave(session / "out" / "outbox", "out_1", "report.bin", source)
    files = session.parent / "files"
    taken = outbox.collect(session, "out_1", "report.bin", files)
    digest = hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert (taken.name, taken.bytes, taken.sha256) == ("report.bin", 3_000_000, digest)
    assert taken.path == f"files/{digest[:32]}/report.bin"
    assert (session.parent / taken.path).read_bytes() == b"x" * 3_000_000
    # again, as after a crash: the same copy
    assert outbox.collect(session, "out_1", "report.bin", files) == taken
    assert [path.name for path in files.iterdir()] == [digest[:32]]
    outbox.discard(session, "out_1")
    assert list((session / "out" / "outbox").iterdir()) == []


def test_a_hostile_outbox_gives_nothing_away(session: Path) -> None:
    files, box = session.parent / "files", session / "out" / "outbox"
    (box / "out_1" / "key").symlink_to(session.parent / "secret")
    (box / "out_2").symlink_to(session.parent)
    for id, name in (("out_1", "key"), ("out_2", "secret"), ("out_1", "../../../../secret"), ("..", "secret")):
        with pytest.raises(BadInput):
            outbox.collect(session, id, name, files)
    # the whole outbox is a link
    box.rename(session / "out" / "old")
    box.symlink_to(session.parent)
    (session.parent / "out_1").mkdir()
    (session.parent / "out_1" / "mine").write_text("keep")
    with pytest.raises(BadInput, match="'outbox' is a symbolic link"):
        outbox.collect(session, "out_1", "mine", files)
    outbox.discard(session, "out_1")
    assert (session.parent / "out_1" / "mine").read_text() == "keep"
    assert list(files.iterdir()) == []


def test_what_is_discarded_is_not_followed_either(session: Path) -> None:
    box = session / "out" / "outbox"
    (session.parent / "precious").mkdir()
    (session.parent / "precious" / "file").write_text("keep")
    (box / "out_1" / "link").symlink_to(session.parent / "precious")
    (box / "out_2").symlink_to(session.parent / "precious")
    outbox.discard(session, "out_1")
    outbox.discard(session, "out_2")
    outbox.discard(session, "../../..")
    assert (session.parent / "precious" / "file").read_text() == "keep"
    assert not (box / "out_1").exists()


def test_a_full_disk_leaves_no_half_file(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (session / "out" / "outbox" / "out_1" / "a").write_text("abc")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        outbox.collect(session, "out_1", "a", session.parent / "files")
    assert list((session.parent / "files").iterdir()) == []
