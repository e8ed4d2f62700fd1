"""The facts without what must not leave the office."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from manydesks.pipeline.report.facts import Facts, Row

#: texts that nobody writes freely: days, words of ours, and ids, without which the page could not tell agents apart. Of
#: any other column nobody knows what a program may put there
PLAIN = frozenset(("day", "kind", "status", "agent", "from_agent", "to_agent", "trace", "message_id"))


def redacted(facts: Facts, redact: Callable[[str], str]) -> Facts:
    """The same, with every text that people or programs wrote gone through `redact`, before anything is cut of it.

    A term with something to hide is left out.
    """
    once = cache(redact)

    def row(found: Row) -> Row:
        return {
            name: once(value) if isinstance(value, str) and name not in PLAIN else value
            for name, value in found.items()
        }

    def rows(found: Sequence[Row]) -> Sequence[Row]:
        return [row(one) for one in found]

    return replace(
        facts,
        totals=row(facts.totals),
        agent_daily=rows(facts.agent_daily),
        handoffs=rows(facts.handoffs),
        hours=rows(facts.hours),
        topics=[one for one in facts.topics if once(one["term"]) == one["term"]],
        deaths=rows(facts.deaths),
        letters=rows(facts.letters),
        slowest=[replace(one, summary=row(one.summary), spans=rows(one.spans)) for one in facts.slowest],
    )
