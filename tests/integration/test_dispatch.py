"""Who works when, with a real office: caps, fairness, pauses that last, a quick end, and nothing kept for ever."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from manydesks.office.wire import SOCKET
from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def quiet(reader: Reader) -> bool:
    return not any(reader.queue_status()[state] for state in ("pending", "processing", "outgoing"))


def events(office: OfficeProcess, *kinds: str) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        return reader.events(0, 100_000, kinds=kinds)
    finally:
        reader.close()


def most_at_once(office: OfficeProcess, agents: set[str]) -> int:
    """The most runs of these agents that the ledger ever shows at one time."""
    running, most = set[str](), 0
    for event in events(office, "chain_step_start", "chain_step_done"):
        if event["agent"] in agents:
            (running.add if event["kind"] == "chain_step_start" else running.discard)(event["run"])
            most = max(most, len(running))
    assert not running
    return most


def test_a_provider_has_its_own_number_of_desks(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(dispatch__provider_desks=8, dispatch__provider_limits="{rehearsal = 3}")
    crew = {f"agent{n}" for n in range(6)}
    for agent in crew:
        office.door.ask("agent_add", id=agent)
        for _ in range(3):
            office.door.ask("send", text="!sleep 0.05\n!say done", to=agent)
    office.start()
    office.until(quiet)
    assert most_at_once(office, crew) == 3
    assert Counter(event["agent"] for event in events(office, "message_completed")) == dict.fromkeys(crew, 3)


def test_a_flood_of_one_agent_holds_nobody_up(make_office: Callable[..., OfficeProcess]) -> None:
    """One desk, one message at a time; the flood is urgent and was there first."""
    office = make_office(dispatch__desks=1, dispatch__batch=1)
    for agent in ("flooded", "amy", "ben"):
        office.door.ask("agent_add", id=agent)
    for _ in range(30):
        office.door.ask("send", text="!say more", to="flooded", priority=100)
    for _ in range(3):
        office.door.ask("send", text="!say one", to="amy")
        office.door.ask("send", text="!say two", to="ben")
    office.start()
    office.until(quiet)
    begun = [event["agent"] for event in events(office, "chain_step_start")]
    assert Counter(begun[:9]) == {"flooded": 3, "amy": 3, "ben": 3}
    assert begun[9:] == ["flooded"] * 27


def test_an_agent_that_fails_for_ever_does_not_slow_the_others(make_office: Callable[..., OfficeProcess]) -> None:
    """By the order of events: with one desk for both, between two attempts of it the other one has its turn."""
    office = make_office(dispatch__desks=1, dispatch__batch=1, retry__base_seconds=0.01, retry__max_attempts=100)
    for agent in ("broken", "amy"):
        office.door.ask("agent_add", id=agent)
    for _ in range(5):
        office.door.ask("send", text="!fail transient never again", to="broken", priority=100)
    for n in range(20):
        office.door.ask("send", text=f"!say {n}", to="amy")
    office.start()
    office.until(lambda reader: len(reader.events(0, 10_000, kinds=["message_completed"])) == 20)
    begun = [event["agent"] for event in events(office, "chain_step_start")]
    last = max(n for n, agent in enumerate(begun) if agent == "amy")
    assert "broken" in begun[:last]
    assert all(begun[n : n + 2] != ["broken", "broken"] for n in range(last))
    assert {event["agent"] for event in events(office, "message_retried")} == {"broken"}


def test_a_paused_office_stays_so_until_it_is_resumed(shell: Shell, make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office()
    office.start()
    running = office.door.ask("send", text="!sleep 0.5\n!say finished")
    office.until(lambda reader: reader.queue_status()["processing"] == 1)
    said = shell.said("queue", "pause", "--all")
    assert said == "The office is paused; nothing begins until `manydesks queue resume --all`.\n"
    assert "paused already" in shell.said("queue", "pause", "--all")
    # what runs goes on, what comes is stored and waits
    assert office.trace(running["traceId"])["messages"][0]["responses"][0]["text"] == "finished"
    waiting = office.door.ask("send", text="!say at last")
    assert "the whole office: nothing begins" in shell.said("status")
    office.kill()
    office.start()
    status = json.loads(shell.run("status", "--json").stdout)
    assert (status["officePaused"], status["queue"]["pending"]) == (True, 1)
    assert shell.value("queue", "status")["officePaused"] is True
    # a round of the host's own looks changes nothing
    assert office.stop() == 0
    assert shell.value("queue", "status")["pending"] == 1
    assert shell.said("queue", "resume", "--all") == "The office works again.\n"
    assert shell.said("queue", "resume", "--all") == "The office was not paused.\n"
    office.start()
    (message,) = office.trace(waiting["traceId"])["messages"]
    assert message["responses"][0]["text"] == "at last"
    assert [event["kind"] for event in events(office, "office_paused", "office_resumed")] == [
        "office_paused",
        "office_resumed",
    ]
    for arguments in ([], ["assistant", "--all"]):
        assert shell.run("queue", "pause", *arguments).returncode == 2


@pytest.mark.parametrize("sandbox", [None, "none"], ids=["inside", "process"])
def test_told_twice_an_office_waits_for_nobody(make_office: Callable[..., OfficeProcess], sandbox: str | None) -> None:
    """By the order of events: the run would have had an hour to end by itself, and is given back, uncounted."""
    office = make_office(runner__stop_seconds=600)
    office.start()
    office.door.ask("agent_add", id="amy", sandbox=sandbox)
    office.door.ask("send", text="!tool nothing {}\n!sleep 3600", to="amy")
    office.until(lambda reader: reader.events(0, 1000, kinds=["tool_called"]))
    os.kill(office.pid, signal.SIGTERM)
    while office.home.socket(SOCKET).exists():  # it closes its door first
        time.sleep(0.01)
    os.kill(office.pid, signal.SIGINT)
    assert office.wait() == 0
    assert [event["data"]["reason"] for event in events(office, "message_returned")] == ["the office stopped"]
    assert [event["kind"] for event in events(office)][-1] == "processor_stop"


def test_a_second_office_on_the_same_home_is_refused(shell: Shell, office: OfficeProcess) -> None:
    assert shell.refusal("up") == (
        f"manydesks: An office already runs on {office.home.path} (process {office.pid}); `manydesks down` ends it."
    )


def test_sessions_without_work_are_not_kept_in_mind(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(runner__idle_seconds=1)
    agents = [f"agent{n}" for n in range(40)]
    for agent in agents:
        office.door.ask("agent_add", id=agent)
        office.door.ask("send", text="!say here", to=agent)
    office.start()
    office.until(quiet)

    def forgotten(_: Reader) -> bool:
        host = office.door.host()
        return host is not None and host["desks"] == {"running": 0, "warm": 0, "known": 0}

    office.until(forgotten)
    # and who comes back is as welcome as before
    assert office.ask("!say again", to="agent7")["messages"][0]["responses"][0]["text"] == "again"
