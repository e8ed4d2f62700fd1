"""The disk is full while the office works: what was accepted is kept, what is new is refused with the reason, and when
there is room again it goes on without a hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import ManyDesksError, StoreFull
from manydesks.store.reader import Reader
from manydesks.testing.audit import complaints
from manydesks.testing.disk import fill
from manydesks.testing.office import OfficeProcess

SETTINGS = {
    "MANYDESKS_RETRY__BASE_SECONDS": "0.02",
    "MANYDESKS_RETRY__JITTER": "0",
    #: what the disk does to a message is not the message's fault; what a kill does counts once
    "MANYDESKS_RETRY__MAX_ATTEMPTS": "2",
    "MANYDESKS_LIMITS__PAIR_PER_MINUTE": "1000",
}
#: (what a person writes, who gets it whole, how many messages follow from it in all)
WORK = (
    ("!sleep 0.3\n!say one", "amy", 1),
    ("[@amy: !sleep 0.2\n!say a] [@ben: !sleep 0.3\n!say b] [@dan: !sleep 0.2\n!say d]", None, 3),
    ("[@amy: !sleep 0.2\n!say 1] -> [@dan: !sleep 0.2\n!say 2] -> [@ben: !say 3]", None, 3),
    ("[@amy: !say a] [@ben: !sleep 0.4\n!say b] => [@cleo: !say j]", None, 3),
    ("!sleep 0.2\n!say [@ben: !say h] -> [@cleo: !say i]", "amy", 3),
    ("[#crew: !sleep 0.1\n!say r]", None, 3),
    ('!tool send_to_agent {"agent": "ben", "text": "!sleep 0.1\\n!say s"}\n!say asked', "cleo", 3),
)


@pytest.fixture
def office(home: Path, mount: Callable[..., None]) -> Iterator[OfficeProcess]:
    """An office on a disk of its own, with 24 MiB."""
    mount("size=24m")
    office = OfficeProcess(home, {**os.environ, **SETTINGS})
    try:
        office.start()
        ask = office.door.ask
        ask("agent_add", id="dan", sandbox="bubblewrap")
        for agent in ("amy", "ben", "cleo"):
            ask("agent_add", id=agent, reaches=["dan"])
        ask("team_add", id="crew", leader="amy", members=["ben", "cleo"])
        yield office
    finally:
        office.kill()


def send(office: OfficeProcess) -> dict[str, int]:
    """Trace → how many messages will follow."""
    ask = office.door.ask
    return {ask("send", text=text, to=to)["traceId"]: messages for text, to, messages in WORK}


def refused(office: OfficeProcess, accepted: dict[str, int]) -> None:
    """New work is refused with the reason. There may be room for some more in what the store has: that is accepted."""
    for _ in range(200):
        try:
            accepted[office.door.ask("send", text="!say " + "x" * 100_000)["traceId"]] = 1
        except StoreFull as error:
            if "is full; nothing was changed. Free some space" not in str(error):
                raise
            return
    raise AssertionError("a full disk took everything")


def at_rest(office: OfficeProcess, accepted: dict[str, int], *, attempts: int) -> None:
    """All of it was answered, with so many attempts at most; nothing else was stored."""
    quiet = ("pending", "processing", "outgoing", "held")
    office.until(lambda reader: not any(reader.queue_status()[state] for state in quiet), 60)
    found = read(office, lambda reader: {trace: reader.trace(trace)["messages"] for trace in accepted})
    for trace, messages in found.items():
        assert len(messages) == accepted[trace], messages
        for message in messages:
            assert message["status"] == "completed", message
            assert message["attempts"] <= attempts, message
            said = [r["status"] for r in message["responses"] if r["status"] != "withdrawn"]
            assert said == ["acked"], message
    enqueued = read(office, lambda reader: reader.events(0, 10_000, kinds=["message_enqueued"]))
    assert {event["trace"] for event in enqueued} == accepted.keys()


def read(office: OfficeProcess, look: Callable[[Reader], Any]) -> Any:
    reader = office.door.reader()
    try:
        return look(reader)
    finally:
        reader.close()


def under_way(reader: Reader) -> bool:
    return reader.queue_status()["processing"] >= 2


@pytest.mark.slow
def test_a_full_disk_is_waited_out(office: OfficeProcess) -> None:
    accepted = send(office)
    office.until(under_way)
    ballast = fill(office.home.path)
    refused(office, accepted)
    # it lives, and says what is wrong; what is under way comes to its end and is kept
    office.until(lambda _: "Trying again" in office.log() or "full" in office.log())
    assert office.door.host() is not None
    ballast.unlink()
    at_rest(office, accepted, attempts=1)
    later = send(office)
    at_rest(office, {**accepted, **later}, attempts=1)
    assert office.stop() == 0
    assert complaints(office.home.office_db) == []


@pytest.mark.slow
def test_killed_on_a_full_disk(office: OfficeProcess) -> None:
    accepted = send(office)
    office.until(under_way)
    ballast = fill(office.home.path)
    refused(office, accepted)
    office.kill()
    fill(office.home.path)
    # it comes up and waits, or says in one sentence why it does not
    try:
        office.start()
    except AssertionError:
        assert office.wait(0) == 1, office.log()[-2000:]
        assert "full" in office.log().splitlines()[-1]
        with pytest.raises(ManyDesksError, match="full"):
            office.door.ask("send", text="!say " + "x" * 200_000)
    else:
        refused(office, accepted)
        office.kill()
    ballast.unlink()
    office.start()
    at_rest(office, accepted, attempts=2)
    assert office.stop() == 0
    assert complaints(office.home.office_db) == []
