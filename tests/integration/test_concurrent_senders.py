"""Eight commands at once: everything they say is stored, once, whether a host runs, does not, or is just starting."""

from __future__ import annotations

import json
from subprocess import Popen

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

SENDERS = 8


def begin(shell: Shell) -> list[Popen[str]]:
    return [shell.begin("send", f"!say {n}", "--json") for n in range(SENDERS)]


def stored_once(office: OfficeProcess, senders: list[Popen[str]]) -> None:
    said = [sender.communicate(timeout=60) for sender in senders]
    assert [sender.returncode for sender in senders] == [0] * SENDERS, said
    ids = [json.loads(out)["messageId"] for out, _ in said]
    reader = office.door.reader()
    try:
        enqueued = [event["message"] for event in reader.events(0, 1000, kinds=["message_enqueued"])]
        assert sorted(enqueued) == sorted(ids)
        assert sorted(reader.message(id)["text"] for id in ids) == [f"!say {n}" for n in range(SENDERS)]
        assert len(reader.events(0, 1000, kinds=["agent_added"])) == 1
    finally:
        reader.close()


def answered_once(office: OfficeProcess) -> None:
    office.until(lambda reader: reader.queue_status()["completed"] == SENDERS and not reader.queue_status()["outgoing"])
    reader = office.door.reader()
    try:
        assert len(reader.events(0, 1000, kinds=["response_delivered"])) == SENDERS
    finally:
        reader.close()


def test_without_a_host(shell: Shell, make_office) -> None:
    office = make_office()
    stored_once(office, begin(shell))
    office.start()
    answered_once(office)


def test_with_a_host(shell: Shell, office: OfficeProcess) -> None:
    stored_once(office, begin(shell))
    answered_once(office)


@pytest.mark.slow
def test_while_the_host_starts(shell: Shell, make_office) -> None:
    office = make_office()
    senders = begin(shell)
    office.start()
    stored_once(office, senders)
    answered_once(office)


@pytest.mark.slow
def test_while_the_host_stops_and_another_starts(shell: Shell, office: OfficeProcess) -> None:
    senders = begin(shell)
    assert office.stop() == 0
    office.start()
    stored_once(office, senders)
    answered_once(office)


def test_several_offices_on_one_home_are_one(shell: Shell, office: OfficeProcess) -> None:
    others = [shell.begin("up") for _ in range(4)]
    said = [other.communicate(timeout=60) for other in others]
    assert [other.returncode for other in others] == [1] * 4
    for out, err in said:
        assert out == ""
        (line,) = err.splitlines()
        assert line == (
            f"manydesks: An office already runs on {shell.home} (process {office.pid}); `manydesks down` ends it."
        )
    assert shell.value("status")["host"]["pid"] == office.pid
