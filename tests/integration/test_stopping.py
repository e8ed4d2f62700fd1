"""Stopping what runs, with a real office: at once in the store, in good order at the desk, and never as completed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

#: an agent inside the host, and one whose runner is a process in a sandbox
seats = pytest.mark.parametrize("sandbox", [None, "bubblewrap"], ids=["inside", "sandbox"])


def sent(shell: Shell, text: str, *more: str) -> str:
    return str(json.loads(shell.run("send", text, *more, "--json").stdout)["messageId"])


def at_work(office: OfficeProcess, id: str) -> str:
    """Wait until its desk is at work on it; its run. The text begins with a tool call, so that something is seen."""

    def seen(reader: Any) -> str | None:
        runs = reader.message(id)["runs"]
        called = [event["run"] for event in reader.events(0, 10_000, kinds=["tool_called"])]
        return runs[-1]["id"] if runs and runs[-1]["id"] in called else None

    return office.until(seen)


def events(office: OfficeProcess, *kinds: str) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        return reader.events(0, 10_000, kinds=kinds)
    finally:
        reader.close()


def over(office: OfficeProcess, run: str) -> dict[str, Any]:
    """The end of the run, waited for."""

    def found(reader: Any) -> dict[str, Any] | None:
        done = reader.events(0, 10_000, kinds=["chain_step_done"])
        return next((event for event in done if event["run"] == run), None)

    return office.until(found)


def ended(office: OfficeProcess, id: str) -> dict[str, Any]:
    """The message, once it and what it sent have come to their end."""
    (message,) = office.trace(office.until(lambda reader: reader.message(id))["traceId"])["messages"]
    return dict(message)


def add(office: OfficeProcess, id: str, sandbox: str | None) -> None:
    office.door.ask("agent_add", id=id, sandbox=sandbox)


@seats
@pytest.mark.parametrize("what", ["message", "run", "lane", "agent", "all"])
def test_stop_of_each_kind(shell: Shell, office: OfficeProcess, sandbox: str | None, what: str) -> None:
    add(office, "amy", sandbox)
    running = sent(shell, "!tool nothing {}\n!hang", "--to", "amy")
    run = at_work(office, running)
    waiting = sent(shell, "!say later", "--to", "amy")
    session = events(office, "message_received")[0]["session"]
    arguments = {
        "message": [running],
        "run": [run],
        "lane": [session],
        "agent": ["--agent", "amy", "--yes"],
        "all": ["--all", "--yes"],
    }[what]
    done = shell.value("queue", "cancel", *arguments)
    together = what in ("lane", "agent", "all")
    assert (done["cancelled"], done["stopped"], done["left"]) == (2 if together else 1, 1, 0)
    assert shell.value("queue", "show", running)["status"] == "cancelled"
    end = over(office, run)["data"]
    assert (end["outcome"], end["reason"]) == ("cancelled", "cancelled by owner")
    # the lane goes on, with whatever was not stopped
    assert office.ask("!say still there", to="amy")["messages"][0]["status"] == "completed"
    assert ended(office, waiting)["status"] == ("cancelled" if together else "completed")
    assert shell.value("queue", "show", running)["status"] == "cancelled"
    assert running not in [event["message"] for event in events(office, "message_completed")]
    cancelled = [event["data"]["actor"] for event in events(office, "message_cancelled")]
    assert cancelled == ["owner"] * (2 if together else 1)
    assert [event["data"]["reason"] for event in events(office, "runner_killed")] == ["cancelled"]


@seats
def test_a_message_that_has_only_just_begun(shell: Shell, office: OfficeProcess, sandbox: str | None) -> None:
    """Nobody at the desk may listen yet: whenever it comes, the word counts, and nothing is answered."""
    add(office, "amy", sandbox)
    for text in ("!sleep 20\n!say never", "!hang"):
        stopped = office.door.ask("send", text=text, to="amy")
        done = office.door.ask("cancel", id=stopped["messageId"])
        assert done["cancelled"] == 1
        (message,) = office.trace(stopped["traceId"])["messages"]
        assert (message["status"], message["responses"]) == ("cancelled", [])
        # well before the time that an interrupted run has
        assert office.ask("!say free again", to="amy")["messages"][0]["status"] == "completed"


@seats
def test_others_of_the_run_go_on_uncounted(
    shell: Shell, make_office: Callable[..., OfficeProcess], sandbox: str | None
) -> None:
    office = make_office()
    office.start()
    add(office, "amy", sandbox)
    shell.said("queue", "pause", "amy")
    first = sent(shell, "!tool nothing {}\n!hang", "--to", "amy")
    rest = [sent(shell, f"!say {n}", "--to", "amy") for n in range(3)]
    shell.said("queue", "resume", "amy")
    run = at_work(office, first)
    assert len({event["run"] for event in events(office, "message_received")}) == 1
    assert shell.value("queue", "cancel", first)["stopped"] == 1
    assert over(office, run)["data"]["outcome"] == "cancelled"
    assert [ended(office, id)["status"] for id in rest] == ["completed"] * 3
    returned = events(office, "message_returned")
    assert [(event["message"], event["data"]["attempt"]) for event in returned] == [(id, 0) for id in rest]
    assert events(office, "message_retried", "message_dead") == []


def test_what_was_sent_stays(shell: Shell, office: OfficeProcess) -> None:
    running = sent(shell, '!tool send_message {"text": "on my way"}\n!hang')
    office.until(lambda reader: [r for r in reader.message(running)["responses"] if r["status"] == "acked"])
    shell.said("queue", "cancel", running)
    message = ended(office, running)
    assert message["status"] == "cancelled"
    assert [(r["text"], r["status"]) for r in message["responses"]] == [("on my way", "acked")]


def test_a_closed_office_cancels_what_waits_and_says_what_it_cannot(shell: Shell, office: OfficeProcess) -> None:
    running = sent(shell, "!tool nothing {}\n!hang")
    at_work(office, running)
    waiting = sent(shell, "!say later")
    office.kill()
    assert shell.refusal("queue", "cancel", running) == (
        f"manydesks: The message '{running}' was running when the office ended, and only an open office ends a run: "
        "`manydesks up`, then cancel it."
    )
    done = shell.run("queue", "cancel", "--all", "--yes")
    assert done.returncode == 1
    assert done.stdout == "1 message cancelled.\n"
    assert "1 message ran when the office ended" in done.stderr
    assert shell.value("queue", "show", waiting)["status"] == "cancelled"
    office.start()
    office.until(lambda reader: reader.message(running)["status"] == "processing")
    assert shell.value("queue", "cancel", running)["stopped"] == 1
    assert ended(office, running)["status"] == "cancelled"


def test_a_host_killed_right_after_the_word_does_not_bring_it_back(shell: Shell, office: OfficeProcess) -> None:
    running = sent(shell, "!tool nothing {}\n!hang")
    run = at_work(office, running)
    office.door.ask("cancel", id=running)
    office.kill()
    office.start()
    assert over(office, run)["data"]["outcome"] == "cancelled"
    assert office.ask("!say hello")["messages"][0]["status"] == "completed"
    assert shell.value("queue", "show", running)["status"] == "cancelled"
    assert len([event for event in events(office, "message_received") if event["message"] == running]) == 1


def test_everything_is_asked_about_first(shell: Shell, office: OfficeProcess) -> None:
    shell.said("queue", "pause", "--all")
    waiting = sent(shell, "hello")
    refused = shell.run("queue", "cancel", "--all")
    assert refused.returncode == 2
    assert "give --yes if you mean it" in refused.stderr
    assert shell.value("queue", "show", waiting)["status"] == "pending"
    for arguments in ([], [""], [waiting, "--all"], ["--agent", "nobody", "--yes"], ["nothing-like-it"]):
        assert shell.run("queue", "cancel", *arguments).returncode == 2
    assert shell.value("queue", "show", waiting)["status"] == "pending"
    assert shell.said("queue", "cancel", "--all", "--yes") == "1 message cancelled.\n"
    assert shell.said("queue", "cancel", "--all", "--yes") == "There was nothing to cancel.\n"
