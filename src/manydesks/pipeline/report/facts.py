"""What the page shows: figures from the published file, and the spans of a few traces from silver."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from manydesks.domain.errors import NoInsights
from manydesks.domain.insight import FILE, VERSION
from manydesks.insights.damage import damage
from manydesks.pipeline import tables
from manydesks.pipeline.damage import reading
from manydesks.pipeline.place import Place, here
from manydesks.pipeline.silver import SPANS

#: waterfalls, and spans in each: more of them nobody reads
TRACES, MOST_SPANS = 5, 60
#: dead letters and topics that are listed
LETTERS, TERMS = 20, 25
#: days that the topics are of
TOPIC_DAYS = 7

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Waterfall:
    """One trace that took long."""

    #: its row of `trace_summary`
    summary: Row
    #: its spans, in the order in which they began
    spans: Sequence[Row]
    #: how many more it has
    more: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything on the page; each row has the columns of its query."""

    #: the figures know every event up to this one, and were made then (ms UTC)
    seq: int
    built_at: int
    #: and none before this one
    begins: int
    #: the first and the last day that is shown
    since: str
    until: str
    totals: Row
    agent_daily: Sequence[Row]
    handoffs: Sequence[Row]
    hours: Sequence[Row]
    topics: Sequence[Row]
    deaths: Sequence[Row]
    letters: Sequence[Row]
    slowest: Sequence[Waterfall]


def gather(lake: Place, days: int) -> Facts | None:
    """Of the newest `days` that have anything; None if the lake has nothing to show yet. Raises `NoInsights`."""
    path = here(lake) / FILE
    if not path.exists():
        return None
    if (found := damage(path)) is not None:
        raise NoInsights(reason=f"{path} is damaged ({found})")
    try:
        # nobody ever writes to this file: it is replaced as a whole
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as db:
            db.row_factory = sqlite3.Row
            return _gather(db, lake, path, days)
    except sqlite3.DatabaseError as error:
        raise NoInsights(reason=f"{path} is damaged ({error})") from error


def _gather(db: sqlite3.Connection, lake: Place, path: Path, days: int) -> Facts | None:
    meta = {row["name"]: row["value"] for row in db.execute("select name, value from meta")}
    if meta.get("version") != str(VERSION):
        raise NoInsights(reason=f"{path} was made by another version of the pipeline")
    shown = [
        row["day"] for row in db.execute("select distinct day from agent_daily order by day desc limit ?", (days,))
    ]
    if not shown:
        return None
    since, until = shown[-1], shown[0]
    topic_since = shown[: TOPIC_DAYS + 1][-1] if len(shown) > TOPIC_DAYS else since

    def rows(sql: str, *values: Any) -> list[Row]:
        return [dict(row) for row in db.execute(sql, values)]

    summaries = rows(SLOWEST, since, until, TRACES)
    return Facts(
        seq=int(meta["to_seq"]),
        built_at=int(meta["built_at"]),
        begins=int(meta.get("begins_at", 1)),
        since=since,
        until=until,
        totals=rows(TOTALS, since, until)[0],
        agent_daily=rows("select * from agent_daily where day between ? and ? order by day, agent", since, until),
        handoffs=rows(HANDOFFS, since, until),
        hours=rows("select weekday, hour, sum(messages) as messages from busy_hours group by 1, 2 order by 1, 2"),
        topics=rows(TOPICS, topic_since, until, TERMS),
        deaths=rows(DEATHS, since, until),
        letters=rows(DEAD_LETTERS, since, until, LETTERS),
        slowest=[_waterfall(lake, summary) for summary in summaries],
    )


TOTALS = """
select count(distinct agent) as agents, count(distinct day) as days, sum(messages) as messages,
  sum(completed) as completed, sum(dead) as dead, sum(retries) as retries, sum(runs) as runs,
  sum(failed_runs) as failed_runs, sum(handoffs_in) as handoffs, sum(cost_usd) as cost_usd,
  sum(unknown_cost_runs) as unknown_cost_runs, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens
from agent_daily where day between ? and ?
"""

HANDOFFS = """
select from_agent, to_agent, sum(handoffs) as handoffs from handoff_matrix where day between ? and ?
group by 1, 2 order by 1, 2
"""

TOPICS = """
select term, agent, day, messages, count, expected, burst from topics_daily where day between ? and ?
order by burst desc, day desc, agent, term limit ?
"""

DEATHS = """
select day, coalesce(failure_class, 'unknown') as failure_class, count(*) as letters from dead_letters
where day between ? and ? group by 1, 2 order by 1, 2
"""

DEAD_LETTERS = """
select day, agent, failure_class, reason, attempts, still_dead, message_id, trace from dead_letters
where day between ? and ? order by died_at desc, message_id limit ?
"""

SLOWEST = """
select * from trace_summary where day between ? and ? and total_ms is not null
order by total_ms desc, trace limit ?
"""


def _waterfall(lake: Place, summary: Row) -> Waterfall:
    """The spans of the trace, from the files of its day alone."""
    found: list[Row] = []
    if tables.exists(lake, SPANS):
        for file in tables.snapshot(lake, SPANS, days=[summary["day"]]):
            wanted = [("trace", "=", summary["trace"])]
            # names of folders mean nothing here
            with reading(file.path) as source:
                found += pq.read_table(source, filters=wanted, partitioning=None).to_pylist()
    found.sort(key=lambda span: (span["start_at"] or 0, span["start_seq"] or 0, span["span_id"]))
    return Waterfall(summary=summary, spans=found[:MOST_SPANS], more=max(len(found) - MOST_SPANS, 0))
