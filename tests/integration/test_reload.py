"""Settings that are changed while the office is open: taken whole or refused whole, and said either way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


@pytest.fixture
def office(make_office: Callable[..., OfficeProcess]) -> OfficeProcess:
    office = make_office()
    office.home.prepare()
    write(office, "[dispatch]\nbatch = 1\n")
    office.start()
    return office


def write(office: OfficeProcess, text: str) -> None:
    """As editors do: a look never finds half of it."""
    fresh = office.home.settings_file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(office.home.settings_file)


def events(office: OfficeProcess, *kinds: str) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        return reader.events(0, 100_000, kinds=kinds)
    finally:
        reader.close()


def changed(office: OfficeProcess, n: int) -> dict[str, Any]:
    """What the n-th change of the settings was, waited for."""

    def found(reader: Any) -> dict[str, Any] | None:
        seen = reader.events(0, 10_000, kinds=["settings_changed"])
        return seen[n - 1]["data"] if len(seen) >= n else None

    return office.until(found)


def refused(office: OfficeProcess, n: int) -> str:
    def found(reader: Any) -> str | None:
        seen = reader.events(0, 10_000, kinds=["settings_refused"])
        return seen[n - 1]["data"]["reason"] if len(seen) >= n else None

    return office.until(found)


def test_a_changed_file_counts_without_a_restart(shell: Shell, office: OfficeProcess) -> None:
    write(office, "[dispatch]\nbatch = 4\ndesks = 2\n[limits]\nmessage_bytes = 2000\n[runner]\nidle_seconds = 60\n")
    assert changed(office, 1) == {
        "before": {"dispatch.batch": 1, "dispatch.desks": 64, "limits.message_bytes": 262_144,
                   "runner.idle_seconds": 1800},
        "after": {"dispatch.batch": 4, "dispatch.desks": 2, "limits.message_bytes": 2000, "runner.idle_seconds": 60},
        "next_start": [],
    }  # fmt: skip
    # what comes in
    assert "at most 2000 are allowed" in shell.refusal("send", "x" * 3000)
    # what begins
    shell.said("queue", "pause", "--all")
    traces = [office.door.ask("send", text="!say hello")["traceId"] for _ in range(4)]
    shell.said("queue", "resume", "--all")
    for trace in traces:
        office.trace(trace)
    assert {event["data"]["batch"] for event in events(office, "message_received")} == {4}
    # how failures go
    write(office, "[retry]\nmax_attempts = 1\n")
    assert changed(office, 2)["after"]["retry.max_attempts"] == 1
    (message,) = office.ask("!fail transient no luck")["messages"]
    assert (message["status"], message["attempts"]) == ("dead", 1)
    # a file that is gone: all is as by default, but for the variables
    office.home.settings_file.unlink()
    assert changed(office, 3)["after"]["retry.max_attempts"] == 5
    assert shell.value("status")["host"]["settings"] == {"refused": None, "nextStart": []}


def test_a_file_that_is_not_valid_changes_nothing_and_is_said(shell: Shell, office: OfficeProcess) -> None:
    write(office, "[dispatch]\nbatch = 7\ndesks = 0\n")
    assert "dispatch.desks is 0, but must be a whole number from 1 up to 1024" in refused(office, 1)
    status = shell.said("status")
    assert "settings  not taken, the old ones stay: " in status
    assert "dispatch.desks is 0" in status
    assert "dispatch.desks is 0" in shell.run("doctor").stdout
    # nothing of it counts, also not the part that was right
    shell.said("queue", "pause", "--all")
    traces = [office.door.ask("send", text="!say hello")["traceId"] for _ in range(2)]
    shell.said("queue", "resume", "--all")
    for trace in traces:
        office.trace(trace)
    assert {event["data"]["batch"] for event in events(office, "message_received")} == {1}
    write(office, "[upstreams.far]\nkind = 'openai'\nbase_url = 'http://example.org/v1'\n")
    assert "far" in refused(office, 2)
    write(office, "[dispatch\n")
    refused(office, 3)
    # the same file again is the same refusal, told once
    os.utime(office.home.settings_file)
    os.kill(office.pid, signal.SIGHUP)
    write(office, "[dispatch]\nbatch = 2\n")
    assert changed(office, 1)["after"] == {"dispatch.batch": 2}
    assert len(events(office, "settings_refused")) == 3
    assert "settings  " not in shell.said("status")


def test_what_a_provider_does_not_take_is_refused_whole(shell: Shell, office: OfficeProcess) -> None:
    mistakes = {
        "[providers.ghost]\nwarm = true\n": "unknown provider 'ghost', allowed are",
        "[providers.rehearsal]\nscirpt = 'x'\n": "The provider 'rehearsal' has no option 'scirpt'",
        "[providers.claude]\nwarm = 'yes'\n": "[providers.claude]: option 'warm' of claude must be true or false;",
    }
    for n, (text, said) in enumerate(mistakes.items(), 1):
        write(office, "[dispatch]\nbatch = 9\n" + text)
        assert said in refused(office, n)
        # it costs no office either
        assert said in shell.refusal("restart")
    assert office.door.ask("send", text="!say still open")["messages"][0]["agent"] == "assistant"
    assert events(office, "settings_changed") == []
    office.stop()
    assert "warm" in shell.refusal("up")


def test_a_key_that_is_not_allowed_where_it_stands_is_not_told(shell: Shell, office: OfficeProcess) -> None:
    shell.said("secret", "set", "openai_api_key", text="sk-very-secret-indeed\n")
    write(office, '[providers.openai]\nmax_tokens = "sk-very-secret-indeed"\n')
    assert "the option 'max_tokens' must be a whole number" in refused(office, 1)
    assert b"sk-very-secret-indeed" not in office.home.office_db.read_bytes()
    assert "sk-very-secret-indeed" not in office.log()


def test_what_only_a_start_can_change_is_named(shell: Shell, office: OfficeProcess) -> None:
    write(office, '[office]\ndurability = "crash"\n[dispatch]\nbatch = 1\n')
    assert changed(office, 1)["next_start"] == ["office.durability"]
    assert "settings  office.durability takes effect at the next start" in shell.said("status")
    write(office, "[dispatch]\nbatch = 1\n")
    assert changed(office, 2)["after"] == {"office.durability": "power"}
    assert "next start" not in shell.said("status")


def test_told_to_look_it_looks_at_once(office: OfficeProcess) -> None:
    write(office, "[dispatch]\nbatch = 3\n")
    os.kill(office.pid, signal.SIGHUP)
    assert changed(office, 1)["after"] == {"dispatch.batch": 3}
    assert office.ask("!say still open")["messages"][0]["status"] == "completed"


def test_a_secret_in_the_wrong_place_does_not_reach_the_ledger(shell: Shell, office: OfficeProcess) -> None:
    shell.said("secret", "set", "openai_api_key", text="sk-very-secret-indeed\n")
    write(office, '[providers.openai]\nkey = "sk-very-secret-indeed"\n')
    assert "providers.openai.key" in changed(office, 1)["after"]
    assert b"sk-very-secret-indeed" not in office.home.office_db.read_bytes()
    assert "sk-very-secret-indeed" not in office.log()


def test_a_desk_is_furnished_anew_when_its_terms_were_changed(office: OfficeProcess) -> None:
    office.door.ask("agent_add", id="amy", sandbox="none")
    office.ask("!say one", to="amy")
    office.ask("!say two", to="amy")
    assert len(events(office, "runner_started")) == 1
    write(office, "[sandbox]\nopen_files = 128\n")
    changed(office, 1)
    office.ask("!say three", to="amy")
    assert len(events(office, "runner_started")) == 2


def test_a_terminal_that_is_closed_closes_the_office_that_was_opened_there(home: Path) -> None:
    """There SIGHUP means that the terminal is gone."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "manydesks", "--home", str(home), "up"]
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, start_new_session=True, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("The office is open: ")
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        os.close(ours)
        os.close(theirs)
