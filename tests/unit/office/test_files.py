from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manydesks.domain.attachment import MAX_FILE_BYTES, MAX_FILES, Attachment, NotTaken
from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Collected, Content, Outbound
from manydesks.office.files import SWEEP_MS, clear, keep_file, kept_files, receive, sweep
from manydesks.settings.home import Home
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def page(**rows: Content) -> Collected:
    messages = [
        Outbound(id=id, seq=2 * at + 1, run="r", fence=1, in_reply_to=None, at=1, kind="chat", content=content)
        for at, (id, content) in enumerate(rows.items())
    ]
    return Collected(epoch="ab" * 16, last_seq=99, messages=tuple(messages))


def test_each_row_gets_its_own_files(home: Home) -> None:
    session = home.session("ada", "session_1")
    for id, name in (("out_1", "a"), ("out_2", "b")):
        folder = session / "out" / "outbox" / id
        folder.mkdir(parents=True)
        (folder / name).write_text(name)
    taken = receive(
        session,
        page(
            out_1={"text": "", "files": ["a", "a", "b"]},
            out_2={"text": "", "files": ["b"]},
            out_3={"text": "no files"},
            out_4={"text": "", "files": "a"},
            out_5={"text": "", "files": [7]},
        ),
        home.files,
    )
    assert {id: [type(file) for file in files] for id, files in taken.items()} == {
        "out_1": [Attachment, NotTaken],
        "out_2": [Attachment],
        "out_5": [NotTaken],
    }
    assert taken["out_1"][1] == NotTaken(name="b", reason="there is no 'b'")
    clear(session, taken)
    assert list((session / "out" / "outbox").iterdir()) == []


def test_there_is_an_end_to_them(home: Home) -> None:
    names = [f"f{number}" for number in range(MAX_FILES + 5)]
    taken = receive(home.session("ada", "session_1"), page(out_1={"text": "", "files": names}), home.files)
    assert len(taken["out_1"]) == MAX_FILES + 1
    assert taken["out_1"][-1] == NotTaken(name="…", reason="at most 10 files go with one message")


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    store = Store(home.office_db, durability="crash")
    yield store
    store.close()


async def test_what_no_row_names_is_swept_when_it_is_old(home: Home, store: Store) -> None:
    clock = ManualClock()

    def insert(tx) -> None:  # type: ignore[no-untyped-def]
        body = tx.body("x")
        values = {"queue": "c", "channel": "c", "platform_id": "p", "sender": "s", "body": body, "state": 4}
        files = '[{"name":"a","bytes":1,"sha256":"x","path":"files/named/a"}]'
        tx.insert("responses", {**values, "files": files, "created_at": 1, "updated_at": 1})
        tx.count("responses", "c", None, 4)

    await store._do(insert)
    for name, age in (("named", 2 * SWEEP_MS), ("orphan", 2 * SWEEP_MS), ("young", SWEEP_MS // 2)):
        (home.files / name).mkdir()
        (home.files / name / "a").write_text("a")
        moment = (clock.now() - age) / 1000
        os.utime(home.files / name, (moment, moment))
    part = home.files / ".part-1"
    part.write_text("half")
    os.utime(part, (1, 1))
    assert await sweep(store, home, clock) == 2
    assert sorted(path.name for path in home.files.iterdir()) == ["named", "young"]
    assert await sweep(store, home, clock) == 0


async def test_copies_in_inboxes_go_with_their_message(home: Home, store: Store) -> None:
    clock = ManualClock()
    inbox = home.session("ada", "session_1") / "in" / "inbox"
    for name in ("console_gone", "console_here"):
        (inbox / name).mkdir(parents=True)
        os.utime(inbox / name, (1, 1))

    await store.add_agent(id="ada", name=None, provider="rehearsal", model=None, sandbox=None, options=None)
    file = Attachment(name="a", bytes=1, sha256="ab" * 32, path="files/named/a")
    came = Incoming(source="console", key="console_here", text="x", channel="c", platform_id="p", files=(file,))
    await store.accept(came, default_agent="ada", message_bytes=100)
    assert await sweep(store, home, clock) == 1
    assert [path.name for path in inbox.iterdir()] == ["console_here"]


def test_a_persons_file_is_kept_and_known_again(home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("plan")
    kept = keep_file(str(tmp_path / "plan.txt"), home.files)
    assert (home.path / kept.path).read_text() == "plan"
    assert kept_files([kept.as_json()], home) == (kept,)


def test_what_is_no_file_of_a_person(home: Home, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a\nb").write_text("x")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(MAX_FILE_BYTES + 1)
    for name, why in (("pipe", "not a regular"), ("a\nb", "a name"), ("huge", "at most"), ("no", "cannot be read")):
        with pytest.raises(BadInput, match=why):
            keep_file(str(tmp_path / name), home.files)
    assert list(home.files.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [{"path": "secrets.toml"}, {"path": "files/../secrets.toml"}, {"name": "../x"}, {"bytes": 5}, {"sha256": "x"},
     {"sha256": "ab" * 32}, {"name": None}],
)  # fmt: skip
def test_another_process_cannot_name_what_was_not_kept(home: Home, tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / "plan.txt").write_text("plan")
    kept = keep_file(str(tmp_path / "plan.txt"), home.files)
    with pytest.raises(BadInput):
        kept_files([{**kept.as_json(), **change}], home)
