"""`manydesks trace`: the tree."""

from __future__ import annotations

import json

import pytest

from manydesks.cli.trace import tree_of
from manydesks.cli.tree import render

RUN = {
    "id": "run_1",
    "attempt": 1,
    "outcome": "ok",
    "reason": None,
    "startedAt": 1_700_000_000_012,
    "durationMs": 1234,
    "inputTokens": 1500,
    "outputTokens": 70,
    "costUsd": 0.0123,
    "tools": [
        {"tool": "send_to_agent", "ok": True, "durationMs": 4},
        {"tool": "bash", "ok": False, "durationMs": None},
    ],
}


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_tree(run, reader, message, response):
    failed = {**RUN, "outcome": "failed", "reason": "429 slow\ndown", "inputTokens": None, "outputTokens": None}
    failed |= {"costUsd": None, "tools": []}
    reader.traces = [
        {
            "traceId": "trace_1",
            "messages": [
                message(
                    runs=[failed, {**RUN, "attempt": 2, "startedAt": RUN["startedAt"] + 6_234}],
                    responses=[response()],
                    text="fix it\nplease",
                ),
                message(
                    "internal_2",
                    "reviewer",
                    parent="console_aaaaaaaa",
                    fromAgent="coder",
                    status="dead",
                    lastError="bad key",
                    queueMs=None,
                ),
                message("internal_3", "tester", parent="internal_2", status="held", holdReason="chain", queueMs=None),
            ],
        }
    ]
    result = run("trace", "console_aaaaaaaa")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "trace_1: 3 messages, 3 agents, 2 runs, 1,570 tokens, $0.0123 or more",
        "└─ rene → coder  completed  console_aaaaaaaa  2023-11-14 22:13:20  “fix it” …",
        "   ├─ waited 12 ms",
        "   ├─ run 1  failed  1.2 s  429 slow down",
        "   ├─ tried again after 5.0 s",
        "   ├─ run 2  ok  1.2 s  1,500 in, 70 out  $0.0123",
        "   │  ├─ send_to_agent  ok  4 ms",
        "   │  └─ bash  failed",
        "   ├─ answer to console  acked  “Done.”",
        "   └─ coder → reviewer  dead  internal_2  2023-11-14 22:13:20  “fix it”",
        "      ├─ last error: bad key",
        "      └─ rene → tester  held (chain)  internal_3  2023-11-14 22:13:20  “fix it”",
    ]


def test_who_is_waited_for_and_how_deliveries_went(run, reader, message, response):
    parts = [
        {"messageId": "m1", "agent": "coder", "status": "answered", "reason": None},
        {"messageId": "m2", "agent": "tester", "status": "dead", "reason": "no\nkey"},
    ]
    wait = {"id": "join_1", "kind": "join", "status": "complete", "until": None, "parts": parts}
    times = {"createdAt": 1_700_000_000_000, "ackedAt": 1_700_000_000_250}
    late = {**response("r2", "Later.", "unsure"), "lastError": "cut off"}
    answers = [{**response(), **times}, late]
    reader.traces = [{"traceId": "t", "messages": [message(queueMs=None, wait=wait, responses=answers)]}]
    assert run("trace", "t").stdout.splitlines()[2:] == [
        "   ├─ joins 2 answers  complete",
        "   │  ├─ coder  answered  m1",
        "   │  └─ tester  dead  m2  no key",
        "   ├─ answer to console  acked  250 ms  “Done.”",
        "   └─ answer to console  unsure  (cut off)  “Later.”",
    ]


def test_json_is_the_readers_value(run, reader, message):
    reader.traces = [{"traceId": "trace_1", "messages": [message()]}]
    assert json.loads(run("trace", "trace_1", "--json").stdout) == reader.traces[0]


def test_unknown(run):
    result = run("trace", "nope")
    assert (result.exit_code, result.stderr) == (2, "manydesks: There is no trace or message 'nope'.\n")


def test_text_cannot_draw_its_own_branches(run, reader, message, response):
    reader.traces = [
        {"traceId": "t", "messages": [message(sender="x\n└─ y", text="\x1b[2Ja", responses=[response(text=None)])]}
    ]
    lines = run("trace", "t").stdout.splitlines()
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)
    assert "(erased)" in lines[3]


def test_parents_that_are_missing_or_go_round_lose_no_message(message):
    messages = [
        message("m1", parent="not here"),
        message("m2", parent="m3"),
        message("m3", parent="m2"),
        message("m4", parent="m4"),
        message("m5", parent="m2"),
    ]
    shown = [node.rest for _, node in render(tree_of({"traceId": "t", "messages": messages}))]
    for one in messages:
        assert sum(one["messageId"] in rest for rest in shown) == 1


def test_a_very_long_chain(run, reader, message):
    chain = [message(f"m{n}", parent=f"m{n - 1}" if n else None) for n in range(1500)]
    reader.traces = [{"traceId": "t", "messages": chain}]
    assert len(run("trace", "t").stdout.splitlines()) == 3001


def test_on_a_terminal_lines_are_cut_before_they_are_painted(message, monkeypatch):
    import io

    import click

    from manydesks.cli.output import Output
    from manydesks.cli.text import width
    from manydesks.cli.trace import _line

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    tree = tree_of({"traceId": "t", "messages": [message(status="dead", text="word " * 50)]})
    for columns in (10, 20, 40, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = Output(Terminal(), io.StringIO())
        for branches, node in render(tree):
            line = _line(branches, node, out)
            assert width(click.unstyle(line)) <= columns
            assert line.count("\x1b[31m") == line.count("\x1b[0m")


def test_a_run_that_was_shared_shows_its_cost_once_and_points_to_the_answer(run, reader, message, response):
    used = {"id": "r", "attempt": 1, "outcome": "completed", "reason": None, "durationMs": 5, "inputTokens": 7,
            "outputTokens": 8, "costUsd": 0.5, "tools": [], "message": "m1", "messages": 2}  # fmt: skip
    file = {"name": "plan.pdf", "bytes": 5, "sha256": "ab", "path": "files/ab/plan.pdf"}
    answer = {**response(text="Both."), "files": [file]}
    other = {"messageId": "m1", "traceId": "t", "response": answer}
    one, two = message("m1", runs=[used], responses=[answer]), message("m2", runs=[used], answeredWith=other)
    reader.traces = [{"traceId": "t", "messages": [one, two]}]
    shown = run("trace", "t").stdout
    assert shown.count("$0.5") == 2  # the run's, and the sum
    assert "for 1 other message too" in shown
    assert "together with m1, which shows what it used" in shown
    assert shown.splitlines()[0].startswith("t: 2 messages, 1 agent, 1 run, 15 tokens")
    (covered,) = (line for line in shown.splitlines() if "answered together with m1" in line)
    assert "“Both.”" in covered
    assert "[file] plan.pdf (5 bytes): " in covered


def test_a_question_keeps_its_id(run, reader, message, response):
    asked = {**response(text="Deploy?\n  1. yes"), "operation": "ask_question", "questionId": "question_a"}
    reader.traces = [{"traceId": "t", "messages": [message(responses=[asked])]}]
    assert "“[question] Deploy?” …  (to answer: manydesks answer question_a …)" in run("trace", "t").stdout
