"""Homes on bad disks: read-only, full at the start, full while the office works, held by somebody else."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from manydesks.domain.errors import ManyDesksError, StoreFull
from manydesks.testing.disk import fill
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

Mount = Callable[..., None]


def test_a_read_only_home(shell: Shell, home: Path, mount: Mount) -> None:
    mount("size=8m")
    shell.said("send", "before")
    mount("remount", "ro")
    for command in (("up",), ("up", "--detach"), ("send", "hello"), ("agent", "add", "amy")):
        said = shell.refusal(*command)
        assert str(home) in said
        assert "the file system is read-only" in said
    mount("remount", "rw")
    assert len(shell.value("events", "--type", "message_enqueued")) == 1


def test_a_read_only_home_that_is_empty(shell: Shell, mount: Mount) -> None:
    mount("ro")
    for command in (("up",), ("send", "hello")):
        assert "the file system is read-only" in shell.refusal(*command)


def test_a_home_that_is_full_at_the_start(
    shell: Shell, home: Path, mount: Mount, make_office: Callable[..., OfficeProcess]
) -> None:
    mount("size=4m")
    ballast = fill(home)
    for command in (("up",), ("send", "hello")):
        said = shell.refusal(*command)
        assert str(home) in said
        assert "full" in said
    ballast.unlink()
    office = make_office()
    office.start()
    assert office.ask("hello")["messages"][0]["status"] == "completed"


@pytest.mark.slow
def test_a_home_that_becomes_full_while_the_office_works(
    shell: Shell, home: Path, mount: Mount, make_office: Callable[..., OfficeProcess]
) -> None:
    mount("size=16m")
    office = make_office(retry__max_attempts=2)
    office.start()
    office.ask("hello")
    accepted = [office.door.ask("send", text=f"!sleep 0.3\n!say {n}")["messageId"] for n in range(4)]
    ballast = fill(home)
    # The write-ahead log is reused, so there may be room in it for some more; large messages end that soon.
    refusals: list[ManyDesksError] = []
    for _ in range(200):
        try:
            accepted.append(office.door.ask("send", text="!say " + "x" * 100_000)["messageId"])
        except ManyDesksError as refused:
            refusals.append(refused)
            if len(refusals) == 3:
                break
    assert [type(refused) for refused in refusals] == [StoreFull] * 3
    assert "is full; nothing was changed. Free some space" in str(refusals[0])
    assert "is full; nothing was changed" in shell.refusal("send", "-", text="!say " + "x" * 100_000)
    assert office.door.host() is not None

    ballast.unlink()
    quiet = ("pending", "processing", "outgoing")
    office.until(lambda reader: not any(reader.queue_status()[state] for state in quiet))
    reader = office.door.reader()
    messages = [reader.message(id) for id in accepted]
    assert [message["status"] for message in messages] == ["completed"] * len(accepted), office.log()[-3000:]
    for message in messages:
        said = [r["status"] for r in message["responses"] if r["status"] != "withdrawn"]
        assert said == ["acked"]
    enqueued = [event["message"] for event in reader.events(0, 10_000, kinds=["message_enqueued"])]
    reader.close()
    assert enqueued[1:] == accepted
    assert office.ask("!say as before")["messages"][0]["status"] == "completed"
    assert office.stop() == 0


@pytest.mark.slow
def test_a_full_disk_is_waited_out_and_counts_no_attempt(
    home: Path, mount: Mount, make_office: Callable[..., OfficeProcess]
) -> None:
    """The store has room, the desks have none: nothing that was accepted fails for that."""
    mount("size=4m", at=home / "sessions")
    office = make_office(retry__max_attempts=1)
    office.start()
    ballast = fill(home / "sessions")
    office.door.ask("agent_add", id="amy")
    said = office.door.ask("send", text="[@assistant: !say kept] [@amy: !say kept]")
    reader = office.door.reader()
    reader.wait(0)
    while reader.wait(2.5):  # the office looks around every second; when it writes no more, it waits for room
        pass
    assert {message["status"] for message in reader.trace(said["traceId"])["messages"]} == {"pending"}
    reader.close()
    ballast.unlink()
    for message in office.trace(said["traceId"])["messages"]:
        assert (message["status"], message["attempts"], message["lastError"]) == ("completed", 1, None)


@pytest.mark.slow
def test_an_answer_that_cannot_be_stored_is_kept_until_it_can(office: OfficeProcess) -> None:
    """A stranger holds the store, as a backup might: what is under way is neither lost nor done again."""
    sent = office.door.ask("send", text="!sleep 0.2\n!say kept")
    office.until(lambda reader: reader.queue_status()["processing"] == 1)
    with contextlib.closing(sqlite3.connect(office.home.office_db, isolation_level=None)) as stranger:
        stranger.execute("begin immediate")
        office.until(lambda _: "Trying again" in office.log())
        stranger.execute("rollback")
    (message,) = office.trace(sent["traceId"])["messages"]
    assert (message["status"], message["attempts"]) == ("completed", 1)
    assert [(r["text"], r["status"]) for r in message["responses"]] == [("kept", "acked")]
    assert office.stop() == 0
