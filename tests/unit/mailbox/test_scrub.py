"""Rows that are taken out leave no bytes, and nothing else is disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, MailboxError
from manydesks.domain.mail import Ack, Inbound, Outbound, Step
from manydesks.mailbox import scrub
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox

SECRET = "seventeen turns to the left"


def message(number: int, text: str) -> Inbound:
    return Inbound(
        id=f"api_{number:08d}", run=f"run_{number:08d}", fence=number, kind="chat", at=1, tries=1,
        content={"text": text},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three messages, of which the second is secret, each with a step, an answer and an ack."""
    folder = tmp_path / "amy" / "session_1"
    host = HostMailbox(folder, session="session_1", agent="amy")
    host.prepare()
    desk = DeskMailbox(folder / "in", folder / "out")
    desk.open()
    for number, text in ((1, "plain"), (2, SECRET), (3, "plain too")):
        asked = message(number, text)
        host.put([asked])
        desk.write(
            steps=[Step(run=asked.run, at=1, type="text", data={"text": text})],
            messages=[
                Outbound(
                    id=f"out_{number}", run=asked.run, fence=number, in_reply_to=asked.id, at=1, kind="chat",
                    content={"text": f"you said {text}"},
                )
            ],
            acks=[Ack(message=asked.id, run=asked.run, fence=number, status="completed", at=1)],
        )  # fmt: skip
    host.control("answer", {"text": SECRET})
    return folder


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_rows_and_their_bytes_go(folder: Path) -> None:
    host = HostMailbox(folder, session="session_1", agent="amy")
    before = host.collect(None, 0)
    assert before is not None
    assert SECRET.encode() in bytes_of(folder)
    assert scrub.inbound(folder, ["api_00000002"]) == 1
    assert scrub.outbound(folder / "out", ["run_00000002"], ["api_00000002"]) == 2
    assert SECRET.encode() not in bytes_of(folder)
    after = host.collect(None, 0)
    assert after is not None
    assert [row.id for row in after.messages] == ["out_1", "out_3"]
    assert after.acks == before.acks
    assert (after.epoch, after.last_seq) == (before.epoch, before.last_seq)


def test_numbers_go_on(folder: Path) -> None:
    scrub.outbound(folder / "out", ["run_00000003"], ["api_00000003"])
    scrub.inbound(folder, ["api_00000003"])
    host = HostMailbox(folder, session="session_1", agent="amy")
    before = host.reach()
    assert before is not None
    desk = DeskMailbox(folder / "in", folder / "out")
    desk.open()
    written = desk.write(steps=[Step(run="run_00000004", at=1, type="text", data={"text": "x"})])
    assert written.steps[0] > before[1]
    host.put([message(4, "new")])
    assert [row.seq for row in desk.waiting()] == [8]


def test_an_order_is_followed_at_the_desk(folder: Path) -> None:
    order = scrub.write_order(folder / "in", ["run_00000002"], ["api_00000002"])
    assert SECRET not in order.read_text()
    assert scrub.follow_order(folder / "in", folder / "out") == 2
    order.write_text("[]")
    with pytest.raises(BadInput):
        scrub.follow_order(folder / "in", folder / "out")


def test_files_that_are_not_there_or_are_none(folder: Path, tmp_path: Path) -> None:
    assert scrub.inbound(tmp_path, ["x"]) == 0
    assert scrub.outbound(tmp_path, ["x"], []) == 0
    (folder / "out" / "outbound.db").write_bytes(b"not a database at all")
    with pytest.raises(MailboxError):
        scrub.outbound(folder / "out", ["x"], [])
