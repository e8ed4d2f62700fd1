"""What agents have used, and what is left of the caps: statements and sums for the reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from manydesks.domain.budget import NOTHING, UNITS, Amounts, Budget

By = Literal["agent", "model", "day"]

#: by which column; runs that began before days were booked are on the day in UTC
GROUPS: dict[By, str] = {
    "agent": "agent",
    "model": "coalesce(model, '')",
    "day": "coalesce(day, strftime('%Y-%m-%d', started_at / 1000, 'unixepoch'))",
}
SUMS = (
    "runs", "running", "failed", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "costUsd",
    "unknownTokens", "unknownCost",
)  # fmt: skip
#: a sum of nothing known is null, and says how many runs it does not count
COLUMNS = """
count(*), coalesce(sum(ended_at is null), 0), coalesce(sum(ended_at is not null and outcome = 'failed'), 0),
sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(cost_usd),
coalesce(sum(ended_at is not null and input_tokens is null and output_tokens is null), 0),
coalesce(sum(ended_at is not null and cost_usd is null), 0)
"""
FROM = f"from runs where (?1 is null or {GROUPS['day']} >= ?1)"

Query = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]

SPENT = """
select scope, subject, spent_usd, spent_tokens, spent_runs, reserved_usd, reserved_tokens, reserved_runs, extra
from spending where day = ?1
"""


def usage(query: Query, *, by: By, since: str | None) -> dict[str, Any]:
    """Rows by agent, model or day, and their total; every run counts, also failed and silent ones."""
    group = GROUPS[by]
    rows = query(f"select {group}, {COLUMNS} {FROM} group by 1 order by 1", (since,))
    (total,) = query(f"select {COLUMNS} {FROM}", (since,))
    return {
        "by": by,
        "since": since,
        "rows": [{by: row[0], **dict(zip(SUMS, row[1:], strict=True))} for row in rows],
        "total": dict(zip(SUMS, total, strict=True)),
    }


def caps(query: Query, budget: Budget, day: str) -> list[dict[str, Any]]:
    """Of each cap on a day what is spent, reserved and left, the office's first; dollars as a number of them."""
    found = {(scope, subject): row for scope, subject, *row in query(SPENT, (day,))}
    agents = query("select id, budget from agents where removed_at is null order by id", ())
    scopes = [("office", "", budget.office)]
    scopes += [("agent", id, budget.of_agent(json.loads(own) if own else None)) for id, own in agents]
    return [line for scope, subject, cap in scopes for line in _lines(scope, subject, day, cap, found)]


def _lines(
    scope: str, subject: str, day: str, cap: Amounts, found: Mapping[tuple[str, str], Sequence[int]]
) -> list[dict[str, Any]]:
    row = found.get((scope, subject), (0,) * 7)
    spent, reserved = (Amounts(**dict(zip(UNITS, part, strict=True))) for part in (row[:3], row[3:6]))
    lines = []
    for unit in UNITS if cap != NOTHING else ():
        if not (limit := (cap.of(unit) or 0) * (1 + row[6])):
            continue
        scale = 1_000_000 if unit == "usd" else 1
        amounts = {"cap": limit, "spent": spent.of(unit) or 0, "reserved": reserved.of(unit) or 0}
        amounts["left"] = max(0, limit - amounts["spent"] - amounts["reserved"])
        shown = {name: value / scale if unit == "usd" else value for name, value in amounts.items()}
        lines.append({"scope": scope, "agent": subject or None, "day": day, "unit": unit, **shown})
    return lines
