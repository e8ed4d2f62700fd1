from __future__ import annotations

import json

KEYS = ("runs", "running", "failed", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "costUsd",
        "unknownTokens", "unknownCost")  # fmt: skip
CODER = dict(zip(KEYS, (3, 1, 1, 12_000, 340, None, 0, 1.5, 0, 2), strict=True))
UNKNOWN = dict(zip(KEYS, (1, 0, 0, None, None, None, None, None, 1, 1), strict=True))
CAP = {"scope": "agent", "agent": "coder", "day": "1970-01-01", "unit": "usd", "cap": 2.0, "spent": 1.5,
       "reserved": 0.25, "left": 0.25}  # fmt: skip


def used(by: str = "agent") -> dict[str, object]:
    rows = [{by: "coder", **CODER}, {by: "", **UNKNOWN}]
    return {"by": by, "since": None, "rows": rows, "total": {**CODER, "runs": 4, "unknownCost": 3}}


def test_usage(run, reader):
    reader.used = used()
    result = run("usage")
    head, coder, nameless, total = result.stdout.splitlines()
    assert " ".join(head.split()) == "AGENT RUNS FAILED IN OUT CACHE READ CACHE WRITE COST COST UNKNOWN"
    assert coder.split() == ["coder", "3", "1", "12,000", "340", "-", "0", "$1.5000", "2"]
    # unknown is not 0
    assert nameless.split() == ["not", "named", "1", "0", "-", "-", "-", "-", "-", "1"]
    assert total.split()[:2] == ["total", "4"]
    assert "1 run under way" in result.stderr
    assert reader.asked == [{"by": "agent", "since": None}]


def test_usage_since_a_day(run, reader):
    reader.used = {**used("day"), "rows": []}
    result = run("usage", "--by", "day", "--since", "2026-07-30")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No agent has run since 2026-07-30." in result.stderr
    assert reader.asked == [{"by": "day", "since": "2026-07-30"}]
    assert run("usage", "--by", "moon").exit_code == 2
    assert run("usage", "--since", "30.7.").exit_code == 2


def test_what_is_left_of_caps(run, reader):
    reader.used = used()
    reader.capped = [
        {**CAP, "agent": None, "unit": "tokens", "cap": 5000, "spent": 1, "reserved": 0, "left": 4999},
        CAP,
    ]
    lines = run("usage").stdout.splitlines()
    assert lines[-4].startswith("1970-01-01 (UTC)")
    assert lines[-2].split() == ["the", "office", "5,000", "tokens", "1", "token", "0", "tokens", "4,999", "tokens"]
    assert lines[-1].split() == ["coder", "$2.00", "$1.50", "$0.25", "$0.25"]
    value = json.loads(run("usage", "--json").stdout)
    assert (value["today"], value["timeZone"]) == ("1970-01-01", "UTC")
    assert value["caps"][1] == CAP


def test_an_agent_with_a_cap(run, reader):
    card = {"id": "coder", "name": "Coder", "provider": "claude", "model": None, "sandbox": None, "options": {},
            "concurrency": 1, "budget": {"usd": 2.0}, "teams": [], "reaches": [], "workspace": "workspaces/coder",
            "paused": True, "pauseReason": "coder has used $2.00 of $2.00.", "pending": 1, "processing": 0}  # fmt: skip
    reader.people, reader.capped = [card], [CAP]
    shown = run("agent", "show", "coder").stdout
    assert "today:     $1.50 of $2.00 spent, $0.25 reserved" in shown
    assert "a budget: coder has used $2.00 of $2.00." in shown
    assert "over budget" in run("agent", "list").stdout
