"""Of the runners without work only so many stay warm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[..., Any]


def said(message: dict[str, Any]) -> list[str]:
    return [r["text"] for r in message["responses"] if r["operation"] == "message" and r["status"] == "acked"]


def left(bench: Any) -> list[tuple[str, str]]:
    reader = bench.office.door.reader()
    try:
        events = reader.events(0, 10_000, kinds=["runner_stopped"])
        return [(event["agent"], event["data"]["reason"]) for event in events]
    finally:
        reader.close()


def test_the_longest_idle_leaves_and_comes_back(make_bench: Make) -> None:
    bench = make_bench("none", runner__warm=1)
    for agent in ("cleo", "dan"):
        bench.office.door.ask("agent_add", id=agent, sandbox="none")
    for agent in ("amy", "cleo", "dan"):
        assert said(bench.ask(f"!say {agent}", to=agent)) == [agent]
    bench.unmoved()
    bench.until(lambda: len(left(bench)) >= 2)
    # both leave at once; which of them is gone first is chance
    assert sorted(left(bench)) == [(agent, "idle, and runner.warm is 1") for agent in ("amy", "cleo")]
    assert said(bench.ask("!say back", to="amy")) == ["back"]
    assert said(bench.ask("!say still here", to="dan")) == ["still here"]
    reader = bench.office.door.reader()
    started = [event["agent"] for event in reader.events(0, 10_000, kinds=["runner_started"])]
    reader.close()
    assert (started.count("amy"), started.count("cleo"), started.count("dan")) == (2, 1, 1)


def test_none_may_stay(make_bench: Make) -> None:
    bench = make_bench("bubblewrap", runner__warm=0)
    for text in ("one", "two"):
        before = len(left(bench))
        assert said(bench.ask(f"!say {text}")) == [text]
        bench.until(lambda before=before: len(left(bench)) > before)
        assert bench.processes() == set()
    assert bench.office.stop() == 0


def test_a_run_under_way_is_not_idle(make_bench: Make) -> None:
    bench = make_bench("none", runner__warm=0)
    sent = bench.begin("!sleep 5\n!say done")
    message = bench.message(sent)
    assert (message["status"], message["attempts"], said(message)) == ("completed", 1, ["done"])
