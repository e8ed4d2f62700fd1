"""A runner in a process of its own: it answers, stays warm, leaves, and is ended as a whole."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Any]

#: what an idle runner without a program may hold
IDLE_BYTES = 60 << 20


def said(message: dict[str, Any]) -> list[str]:
    return [r["text"] for r in message["responses"] if r["operation"] == "message" and r["status"] == "acked"]


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
def test_it_answers_and_stays_warm(make_bench: Make, sandbox: str) -> None:
    bench = make_bench(sandbox)
    assert said(bench.ask("!say one")) == ["one"]
    first = bench.runner()
    assert said(bench.ask("!say two")) == ["two"]
    assert bench.runner() == first
    (started,) = bench.kinds("runner_started")
    assert started["data"]["sandbox"] == sandbox
    assert bench.office.stop() == 0
    assert bench.processes() == set()
    bench.office.start()
    assert said(bench.ask("!say three")) == ["three"]


def test_an_idle_runner_is_small(bench: Any) -> None:
    bench.ask("!say hello")
    lines = Path(f"/proc/{bench.runner()}/status").read_text().splitlines()
    (resident,) = (int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
    assert resident < IDLE_BYTES


def test_it_leaves_when_nothing_comes_and_sits_down_again(make_bench: Make) -> None:
    bench = make_bench(runner__idle_seconds=1)
    assert said(bench.ask("!say one")) == ["one"]
    bench.until(lambda: bench.kinds("runner_stopped"))
    (left,) = bench.kinds("runner_stopped")
    assert left["data"]["reason"] == "idle"
    assert bench.processes() == set()
    assert said(bench.ask("!say two")) == ["two"]
    assert len(bench.kinds("runner_started")) == 2


def test_what_lies_on_the_desk_holds_no_secret(bench: Any) -> None:
    bench.ask("!say hello")
    orders = json.loads((bench.session / "in" / "desk.json").read_text())
    assert (orders["agent"], orders["provider"], orders["endpoint"]) == ("amy", "rehearsal", None)
    with closing(sqlite3.connect(f"file:{bench.session}/out/outbound.db?mode=ro", uri=True)) as db:
        assert db.execute("select status from acks").fetchall() == [("completed",)]


def test_a_tool_that_does_not_exist_is_said_to_the_agent(bench: Any) -> None:
    message = bench.ask("!tool no_such_tool {}")
    assert message["status"] == "completed"
    assert "There is no tool 'no_such_tool'" in said(message)[0]


def test_an_agent_that_goes_round_in_circles_is_ended(make_bench: Make) -> None:
    bench = make_bench(limits__same_calls=3)
    message = bench.ask("\n".join(['!tool nothing {"x": 1}'] * 3 + ["!hang"]))
    assert (message["status"], message["attempts"]) == ("dead", 1)
    assert "went round in circles: it called nothing 3 times" in message["lastError"]
    assert said(bench.ask("!say fine")) == ["fine"]


def test_calls_that_differ_are_no_circle(make_bench: Make) -> None:
    bench = make_bench(limits__same_calls=3)
    lines = [f'!tool nothing {{"x": {number}}}' for number in range(9)]
    assert said(bench.ask("\n".join([*lines, "!say done"]))) == ["done"]


def test_a_run_that_takes_too_long_is_ended(make_bench: Make) -> None:
    bench = make_bench(runner__run_seconds=1, retry__max_attempts=2)
    message = bench.ask("!hang")
    assert (message["status"], message["attempts"]) == ("dead", 2)
    assert "did not end within 1 s" in message["lastError"]
    assert len(bench.kinds("runner_killed")) == 2
    assert said(bench.ask("!say fine")) == ["fine"]


def test_no_sandbox_no_run(make_bench: Make, make_office: Callable[..., Any], tmp_path: Path) -> None:
    """Where bwrap is not found nothing falls back: the message is dead, and says what to do."""
    bench = make_bench("bubblewrap", retry__max_attempts=1)
    bench.office.stop()
    empty = tmp_path / "bin"
    empty.mkdir()
    office = make_office(retry__max_attempts=1)
    office._environ["PATH"] = str(empty)
    office.start()
    message = bench.ask("!say hello")
    assert message["status"] == "dead"
    assert "the sandbox 'bubblewrap', which does not work here. There is no bwrap on the PATH." in message["lastError"]
    assert "--sandbox none" in message["lastError"]
    bench.unmoved()
