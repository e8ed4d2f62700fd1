"""`manydesks usage`: what agents have used, and what is left of their caps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from manydesks.cli.caps import amount
from manydesks.cli.caps import budget as allowed
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column, Output
from manydesks.cli.quantity import count

if TYPE_CHECKING:
    from manydesks.store.usage import By

COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
COLUMNS = (
    Column("runs", right=True),
    Column("failed", right=True),
    Column("in", right=True),
    Column("out", right=True),
    Column("cache read", right=True),
    Column("cache write", right=True),
    Column("cost", right=True),
    Column("cost unknown", right=True),
)
CAPS = (
    Column("cap of"),
    Column("a day", right=True),
    Column("spent", right=True),
    Column("reserved", right=True),
    Column("left", right=True),
)


@click.command(cls=Command)
@click.option("--by", type=click.Choice(["agent", "model", "day"]), default="agent", show_default=True,
              help="What a line is about.")  # fmt: skip
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE",
              help="Only runs that began on this day (YYYY-MM-DD) or later.")  # fmt: skip
@pass_invocation
def usage(invocation: Invocation, by: By, since: datetime | None) -> None:
    """Show what agents have used, and what is left.

    Every run counts, also one that failed or said nothing. A cost that nobody knows is not counted as 0: the last
    column says how many runs it is. Days begin where `budget.time_zone` says. Runs leave the store as old messages do
    (`retention.days`).
    """
    budget, today = allowed(invocation)
    day = since.date().isoformat() if since is not None else None
    found = invocation.reader.usage(by=by, since=day)
    caps, out = invocation.reader.caps(budget, today), invocation.out
    if out.json:
        out.value({**found, "today": today, "timeZone": budget.time_zone, "caps": caps})
        return
    if not found["rows"]:
        out.note("No agent has run yet." if day is None else f"No agent has run since {day}.")
    else:
        rows = [(row[by] or "not named", *_cells(row)) for row in found["rows"]]
        out.table((Column(by), *COLUMNS), [*rows, ("total", *_cells(found["total"]))])
        if running := found["total"]["running"]:
            out.note(f"{count(running, 'run')} under way: what they use is not counted yet.")
    if caps:
        _show_caps(out, caps, today, budget.time_zone)


def _show_caps(out: Output, caps: list[dict[str, Any]], today: str, time_zone: str) -> None:
    out.line()
    out.line(f"{today} ({time_zone})")
    keys = ("cap", "spent", "reserved", "left")
    rows = [(line["agent"] or "the office", *(amount(line["unit"], line[key]) for key in keys)) for line in caps]
    out.table(CAPS, rows)


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    tokens = (None if row[key] is None else f"{row[key]:,}" for key in COUNTS)
    cost = None if row["costUsd"] is None else f"${row['costUsd']:,.4f}"
    return f"{row['runs']:,}", f"{row['failed']:,}", *tokens, cost, f"{row['unknownCost']:,}"
