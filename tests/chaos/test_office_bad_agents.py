"""Agents that answer each other for ever, and agents that fail for ever: the office stops the ones, and works on beside
the others. Its host is killed on the way."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.store.reader import Reader
from manydesks.testing.audit import complaints
from manydesks.testing.office import OfficeProcess

QUICK = {"MANYDESKS_RETRY__BASE_SECONDS": "0.02", "MANYDESKS_RETRY__JITTER": "0"}


@pytest.fixture
def make_office(home: Path) -> Iterator[Callable[..., OfficeProcess]]:
    made: list[OfficeProcess] = []

    def make(**settings: object) -> OfficeProcess:
        given = {f"MANYDESKS_{name.upper()}": str(value) for name, value in settings.items()}
        made.append(OfficeProcess(home, {**os.environ, **QUICK, **given}))
        made[-1].start()
        return made[-1]

    yield make
    for office in made:
        office.kill()


def quiet(reader: Reader) -> bool:
    return not any(reader.queue_status()[state] for state in ("pending", "processing", "outgoing"))


def events(office: OfficeProcess, *kinds: str) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        return reader.events(0, 100_000, kinds=kinds)
    finally:
        reader.close()


#: how one of two may never leave the other in peace; `{}` is the other
LOOPS = {
    "tags": "!say thank you [@{}: thank you]",
    "both words": "!say thank you [@{0}: thank you] [@{0}: and thank you]",
    "asking": '!tool send_to_agent {{"agent": "{}", "text": "thank you"}}\n!say thank you',
    "asking and tags": '!tool send_to_agent {{"agent": "{0}", "text": "thank you"}}\n!say and [@{0}: thank you]',
    "a chain": "!say [@{0}: thank you] -> [@third: thank you] -> [@{0}: thank you]",
    "a join": "!say [@{0}: thank you] [@third: thank you] => [@{0}: thank you]",
    "the room": "!say thank you [#pair: thank you]",
}
#: how many messages of one arrival may be stored, all told
MOST = 40


@pytest.mark.slow
@pytest.mark.parametrize("way", LOOPS)
def test_two_that_always_answer_each_other_stop_at_the_guard(
    make_office: Callable[..., OfficeProcess], way: str
) -> None:
    office = make_office(limits__trace_messages=MOST, limits__pair_per_minute=1000)
    ask = office.door.ask
    for agent, other in (("amy", "ben"), ("ben", "amy")):
        ask("agent_add", id=agent, options={"script": "script.txt"})
        (office.home.workspace(agent) / "script.txt").write_text(f"?\n{LOOPS[way].format(other)}\n")
    for agent in ("third", "cleo"):
        ask("agent_add", id=agent)
    ask("team_add", id="pair", leader="amy", members=["ben", "third"])
    sent = ask("send", text="thank you", to="amy")
    office.until(lambda reader: len(reader.events(0, 1000, kinds=["chain_handoff"])) >= 4)
    # whoever has nothing to do with it is answered meanwhile, and a restart does not let them off
    other = ask("send", text="!say here", to="cleo")
    office.kill()
    office.start()
    assert office.trace(other["traceId"])["messages"][0]["status"] == "completed"
    office.until(quiet, 60)
    reader = office.door.reader()
    messages = reader.trace(sent["traceId"])["messages"]
    held = [m for m in messages if m["holdReason"] == "loop_guard"]
    reader.close()
    assert held, Counter((m["agent"], m["status"]) for m in messages)
    begun = Counter(event["trace"] for event in events(office, "chain_step_start"))
    assert begun[sent["traceId"]] <= 1.5 * MOST
    # what was stopped is shown and stays; the last answers may each have led to some that are held
    assert len([m for m in messages if m["holdReason"] != "loop_guard"]) <= 1.5 * MOST
    assert len(messages) <= 4 * MOST
    # and it is over: another start begins nothing
    head = len(events(office, "chain_step_start"))
    assert office.stop() == 0
    office.start()
    assert office.ask("!say still here", to="cleo")["messages"][0]["status"] == "completed"
    assert len(events(office, "chain_step_start")) == head + 1
    assert office.stop() == 0
    assert complaints(office.home.office_db) == []


#: agent → (its sandbox, how it never succeeds)
BROKEN = {
    "failing": (None, "!fail transient no luck"),
    "crashing": (None, "!crash"),
    "hanging": (None, "!hang"),
    "dying": ("bubblewrap", "!crash"),
}


@pytest.mark.slow
def test_agents_that_fail_for_ever_do_not_slow_the_others(make_office: Callable[..., OfficeProcess]) -> None:
    """One desk is left for the others, and each broken agent has a backlog that is older and more urgent."""
    office = make_office(dispatch__desks=len(BROKEN) + 1, retry__max_attempts=100, dispatch__batch=1)
    ask, good = office.door.ask, ("amy", "ben")
    for agent in good:
        ask("agent_add", id=agent)
    for agent, (sandbox, _) in BROKEN.items():
        ask("agent_add", id=agent, sandbox=sandbox)
    for agent, (_, text) in BROKEN.items():
        for _ in range(5):
            ask("send", text=text, to=agent, priority=100)
    office.until(lambda reader: {e["agent"] for e in reader.events(0, 10_000, ["chain_step_start"])} == set(BROKEN))
    for n in range(30):
        ask("send", text=f"!say {n}", to=good[n % 2])
        if n == 15:
            office.kill()
            office.start()

    def done(reader: Reader) -> bool:
        tried = {event["agent"] for event in reader.events(0, 100_000, ["message_retried"])}
        return len(reader.events(0, 100_000, ["message_completed"])) == 30 and tried >= set(BROKEN)

    office.until(done, 90)
    completed = Counter(event["agent"] for event in events(office, "message_completed"))
    assert completed == dict.fromkeys(good, 15)
    # those that are broken are where they were: at the head of their lanes, one message of each under way
    reader = office.door.reader()
    for agent in BROKEN:
        status = reader.queue_status(agent)
        assert status["pending"] + status["processing"] == 5, (agent, status)
    reader.close()
    assert {event["agent"] for event in events(office, "message_dead")} == set()
    tried = {event["message"] for event in events(office, "message_received") if event["agent"] in BROKEN}
    assert len(tried) == len(BROKEN), "a message passed one that stands before it"
