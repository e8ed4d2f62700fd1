"""Every line that `rehearsal` obeys, through a real office: what follows from it, in the trace and in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def only(trace: dict[str, Any]) -> dict[str, Any]:
    (message,) = trace["messages"]
    return message


def answers(message: dict[str, Any]) -> list[str]:
    """What the sender got from the agent itself."""
    return [r["text"] for r in message["responses"] if (r["operation"], r["status"]) == ("message", "acked")]


def notices(message: dict[str, Any]) -> list[str]:
    """What the sender got from the office."""
    return [r["text"] for r in message["responses"] if (r["operation"], r["status"]) == ("notice", "acked")]


def kinds(office: OfficeProcess, trace: dict[str, Any], *wanted: str) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        return reader.events(0, 10_000, kinds=wanted, trace=trace["traceId"])
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('!say Exactly  this: äöü 🦉 \\ "quoted"', 'Exactly  this: äöü 🦉 \\ "quoted"'),
        ("!say one\nignored\n!say two", "one\ntwo"),
        ("!sleep 0.01\n!say slept", "slept"),
        ("!unknown word", "Assistant here (rehearsal, no model). ada wrote: !unknown word"),
    ],
)
def test_say_answers_exactly(office: OfficeProcess, text: str, answer: str) -> None:
    message = only(office.ask(text))
    assert (message["status"], answers(message)) == ("completed", [answer])
    assert [run["outcome"] for run in message["runs"]] == ["completed"]


def test_a_transient_failure_is_tried_up_to_the_limit_then_dead(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(retry__max_attempts=3)
    office.start()
    trace = office.ask("!fail transient the line is busy")
    message = only(trace)
    assert (message["status"], message["attempts"], answers(message)) == ("dead", 3, [])
    assert message["lastError"] == "the line is busy (attempt 3 of 3)"
    assert [(run["attempt"], run["outcome"]) for run in message["runs"]] == [(n, "failed") for n in (1, 2, 3)]
    moves = kinds(office, trace, "message_retried", "message_dead")
    assert [(move["kind"], move["data"]["attempt"], move["data"]["class"]) for move in moves] == [
        ("message_retried", 1, "transient"),
        ("message_retried", 2, "transient"),
        ("message_dead", 3, "transient"),
    ]
    # the ladder: each wait is twice the one before it
    waits = [move["data"]["next_at"] - move["at"] for move in moves[:2]]
    assert waits == [20, 40]
    assert [message["messageId"] in text for text in notices(message)] == [True]


def test_a_permanent_failure_is_dead_at_once_and_the_sender_is_told(office: OfficeProcess, shell: Shell) -> None:
    done = shell.run("send", "!fail permanent no such key", "--wait")
    assert (done.returncode, done.stdout) == (1, "")
    (letter,) = shell.value("queue", "dead")
    assert done.stderr.splitlines() == [
        f"manydesks: {letter['messageId']} to assistant failed: no such key. "
        f"`manydesks queue retry {letter['messageId']}` tries it again."
    ]
    message = office.door.reader().message(letter["messageId"])
    assert (message["status"], message["attempts"]) == ("dead", 1)
    (told,) = notices(message)
    assert "no such key" in told


def test_malformed_directives_fail_for_good_and_say_what_is_allowed(office: OfficeProcess) -> None:
    message = only(office.ask("!sleep long"))
    assert (message["status"], message["attempts"]) == ("dead", 1)
    assert "allowed is: !sleep SECONDS" in message["lastError"]


def test_fail_times_is_completed_after_so_many_retries(office: OfficeProcess) -> None:
    trace = office.ask("!fail_times 2\n!say at last")
    message = only(trace)
    assert (message["status"], message["attempts"], answers(message)) == ("completed", 3, ["at last"])
    assert [run["outcome"] for run in message["runs"]] == ["failed", "failed", "completed"]
    assert len(kinds(office, trace, "message_retried")) == 2
    assert notices(message) == []


def test_a_crash_ends_the_run_and_counts_an_attempt(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(retry__max_attempts=2)
    office.start()
    trace = office.ask("!crash")
    message = only(trace)
    assert (message["status"], message["attempts"], answers(message)) == ("dead", 2, [])
    assert all("died" in run["reason"] for run in message["runs"])
    assert [event["data"]["class"] for event in kinds(office, trace, "message_retried")] == ["transient"]
    # the desk is not broken by it
    assert answers(only(office.ask("!say fine"))) == ["fine"]


@pytest.mark.slow
def test_a_run_that_hangs_is_killed_and_nobody_else_waits(make_office: Callable[..., OfficeProcess]) -> None:
    # from the third attempt on a lane runs one message at a time, so whoever waits behind it does not die with it
    office = make_office(runner__run_seconds=1, retry__max_attempts=3)
    office.start()
    office.door.ask("agent_add", id="ben")
    hanging = office.door.ask("send", text="!hang", to="assistant")
    waiting = office.door.ask("send", text="!say next", to="assistant")
    other = office.ask("!say not affected", to="ben")
    assert office.door.reader().message(hanging["messageId"])["status"] == "processing"
    assert answers(only(other)) == ["not affected"]

    message = only(office.trace(hanging["traceId"]))
    assert (message["status"], message["attempts"]) == ("dead", 3)
    assert "did not end within 1 s" in message["lastError"]
    assert answers(only(office.trace(waiting["traceId"]))) == ["next"]
    killed = office.door.reader().events(0, 10_000, kinds=["runner_killed"])
    assert [event["agent"] for event in killed] == ["assistant"] * 3


def test_a_tool_sends_a_message_before_the_answer(office: OfficeProcess, shell: Shell) -> None:
    trace = office.ask('!tool send_message {"text": "on my way"}\n!say there')
    message = only(trace)
    assert answers(message) == ["on my way", "there"]
    (run,) = message["runs"]
    assert [(tool["tool"], tool["ok"]) for tool in run["tools"]] == [("send_message", True)]
    assert [event["kind"] for event in kinds(office, trace, "tool_called", "tool_done")] == ["tool_called", "tool_done"]
    assert "send_message  ok" in shell.said("trace", trace["traceId"])


@pytest.mark.parametrize(
    ("call", "says"),
    [("!tool teleport {}", "There is no tool 'teleport'"), ("!tool send_message {}", "needs the argument 'text'")],
)
def test_a_wrong_tool_call_is_an_outcome_the_agent_sees(office: OfficeProcess, call: str, says: str) -> None:
    message = only(office.ask(call))
    assert message["status"] == "completed"
    (answer,) = answers(message)
    assert says in answer
    assert [tool["ok"] for tool in message["runs"][0]["tools"]] == [False]


def test_usage_is_in_the_trace_the_ledger_and_the_run(office: OfficeProcess, shell: Shell) -> None:
    trace = office.ask("!usage 1200 34 0.5\n!usage 1 1 0.25")
    (run,) = only(trace)["runs"]
    assert (run["inputTokens"], run["outputTokens"], run["costUsd"]) == (1201, 35, 0.75)
    (event,) = kinds(office, trace, "run_usage")
    assert event["run"] == run["id"]
    assert event["data"] == {
        "input": 1201,
        "output": 35,
        "cache_read": None,
        "cache_write": None,
        "cost_usd": 0.75,
        "model": "rehearsal",
    }
    assert "1,201 in, 35 out" in shell.said("trace", trace["traceId"])


def test_usage_of_a_failed_run_counts_and_an_unknown_cost_stays_unknown(office: OfficeProcess) -> None:
    (run,) = only(office.ask("!usage 7 8\n!fail permanent no"))["runs"]
    assert (run["inputTokens"], run["outputTokens"], run["costUsd"]) == (7, 8, None)
    (run,) = only(office.ask("hello"))["runs"]
    assert (run["inputTokens"], run["outputTokens"], run["costUsd"]) == (None, None, None)


def test_two_agents_that_answer_each_other_for_ever_are_stopped(office: OfficeProcess, shell: Shell) -> None:
    shell.said("agent", "add", "ben")
    done = shell.run("send", "!pingpong ben", "--wait")
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert "is held (loop_guard: " in said

    (first,) = shell.value("events", "--type", "message_held")
    trace = office.door.reader().trace(first["trace"])
    *moved, held = trace["messages"]
    assert {message["status"] for message in moved} == {"completed"}
    assert (held["status"], held["attempts"], held["hop"]) == ("held", 0, 13)
    assert held["holdReason"] == "loop_guard"
    assert [message["agent"] for message in trace["messages"]] == ["assistant", "ben"] * 7
    assert shell.value("queue", "status")["held"] == 1

    # a person may let it go on: one more step, which is held again, and that one is given up
    (letter,) = shell.value("queue", "held")
    assert (letter["messageId"], letter["reason"]) == (held["messageId"], "loop_guard")
    shell.said("queue", "release", letter["messageId"])
    office.until(lambda reader: reader.message(letter["messageId"])["status"] == "completed")
    (last,) = shell.value("queue", "held")
    shell.said("queue", "drop", last["messageId"], "--yes")
    assert shell.value("queue", "held") == []
    shell.said("agent", "remove", "ben", "--yes")
