"""A desk that sends without end: its run fails with the reason, and so much of it reached nobody."""

from __future__ import annotations

import contextlib
import sqlite3

from manydesks.domain.mail import Outbound
from manydesks.mailbox.desk import DeskMailbox
from manydesks.testing.office import OfficeProcess

FORGED = 3_000


def test_forged_messages_are_not_delivered(office: OfficeProcess) -> None:
    office.ask("!say hello")
    (folder,) = office.home.sessions.glob("assistant/*")

    def handed_over(_: object) -> tuple[str, str, int] | None:
        with contextlib.closing(sqlite3.connect(folder / "in" / "inbound.db")) as db:
            rows = db.execute("select id, run, fence from messages_in where content like '%sleep%'").fetchall()
        return rows[0] if rows else None

    sent = office.door.ask("send", text="!sleep 2\n!say late")
    id, run, fence = office.until(handed_over)
    desk = DeskMailbox(folder / "in", folder / "out")
    desk.write(
        messages=[
            Outbound(id=f"out_{n:08}", run=run, fence=fence, in_reply_to=id, at=1, kind="chat", content={"text": "!"})
            for n in range(FORGED)
        ]
    )
    (message,) = office.trace(sent["traceId"])["messages"]
    assert message["status"] == "dead"
    assert any("the run sent more than 200 messages" in said["text"] for said in message["responses"]), message
    # whatever was on its way by then
    assert len(message["responses"]) <= 201
    answer = office.ask("!say and on")["messages"][0]
    assert (answer["status"], answer["attempts"]) == ("completed", 1)
    assert office.stop() == 0
