"""DuckDB beside Spark: gold from the same files of silver, table by table, and whether both say the same."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measure import Setting, company, own_seconds
from benchmarks.pipeline.homes import MASTER, made_up, pipeline
from benchmarks.report import Fact, Section
from manydesks.pipeline import tables
from manydesks.pipeline.schemas import TABLES

EVENTS_IN_ALL = 5_000_000

_DAY = "strftime(make_timestamp({0} * 1000), '%Y-%m-%d')"
_STORED, _BEGUN, _SAID, _HANDED = (_DAY.format(name) for name in ("created_at", "started_at", "created_at", '"at"'))


def _percentiles(value: str, name: str) -> str:
    return ", ".join(f"quantile_cont({value}, 0.{p}) as {name}_p{p}_ms" for p in (50, 95, 99))


#: the columns that are compared, and the same table in DuckDB's SQL
SQL = {
    "agent_daily": f"""
        with stored as (
          select {_STORED} as day, agent, count(*) as messages, count(*) filter (status = 'completed') as completed,
                 count(*) filter (status = 'dead') as dead, {_percentiles("queue_ms", "queue")}
          from messages where created_at is not null and agent is not null group by all),
        begun as (
          select {_BEGUN} as day, agent, count(*) as runs, sum(cost_microusd) / 1e6 as cost_usd,
                 {_percentiles("duration_ms", "run")}
          from runs where started_at is not null and agent is not null group by all),
        said as (
          select {_SAID} as day, agent, {_percentiles("delivery_ms", "delivery")}
          from responses where created_at is not null and agent is not null group by all)
        select day, agent, coalesce(messages, 0), coalesce(completed, 0), coalesce(dead, 0), coalesce(runs, 0),
               queue_p50_ms, run_p50_ms, delivery_p50_ms
        from stored full join begun using (day, agent) full join said using (day, agent)""",
    "handoff_matrix": f"""
        select {_HANDED} as day, from_agent, to_agent, count(*) as handoffs from handoffs
        where "at" is not null and from_agent is not null and to_agent is not null group by all""",
    "cost_daily": f"""
        select {_BEGUN} as day, agent, provider, coalesce(used_model, model) as model, count(*) as runs,
               count(*) filter (cost_microusd is null) as unknown_cost_runs
        from runs where started_at is not null and agent is not null and outcome is not null group by all""",
    "busy_hours": """
        select isodow(make_timestamp(created_at * 1000)) as weekday, hour(make_timestamp(created_at * 1000)) as hour,
               agent, count(*) as messages
        from messages where created_at is not null and agent is not null group by all""",
}
COLUMNS = {
    "agent_daily": "day, agent, messages, completed, dead, runs, queue_p50_ms, run_p50_ms, delivery_p50_ms",
    "handoff_matrix": "day, from_agent, to_agent, handoffs",
    "cost_daily": "day, agent, provider, model, runs, unknown_cost_runs",
    "busy_hours": "weekday, hour, agent, messages",
}
#: of groups over 10,000 values ours round each value to four digits
CLOSE = 0.001


def peer(setting: Setting) -> Section:
    import duckdb

    home = made_up(setting.scratch, setting.of(EVENTS_IN_ALL))
    lake = home / "lake"
    lines = []
    with company() as heard:
        seen, told = pipeline(home, "rebuild", "--yes", "--master", MASTER)
        heard.unwaited = seen.cpu
        steps = {step["step"]: step["seconds"] for step in told["steps"]}
        db = duckdb.connect()
        db.execute("set threads = 2")
        for name in {"messages", "runs", "responses", "handoffs", *SQL}:
            files = [str(path) for path in tables.files(lake, TABLES[name])]
            db.read_parquet(files).create_view(name)
        for name, sql in SQL.items():
            began, spent = time.perf_counter(), own_seconds()
            found = db.execute(sql).fetchall()
            wall, cpu = time.perf_counter() - began, own_seconds() - spent
            ours = db.execute(f"select {COLUMNS[name]} from {name}").fetchall()
            same = _alike(ours, found)
            lines.append(
                Fact(
                    what=name,
                    value=f"Spark {steps[name]:.1f} s, written and committed; DuckDB {wall:.2f} s ({cpu:.2f} s CPU)",
                    target=f"the same {len(ours):,} rows",
                    holds=same,
                )
            )
    whole = sum(steps[name] for name in SQL)
    return Section(
        title="Gold of all days from the same files of silver, beside DuckDB in one process",
        lines=[*lines],
        company=heard,
        notes=[f"Spark took {whole:.1f} s for these four, of {seen.wall:.0f} s for all of silver and gold from bronze"],
    )


def _alike(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return sorted(rows, key=lambda row: [str(cell) for cell in row[:4]])

    pairs = list(zip(in_order(ours), in_order(theirs), strict=False))
    return len(ours) == len(theirs) and all(
        _close(one, other) for mine, their in pairs for one, other in zip(mine, their, strict=True)
    )


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and abs(one - other) <= CLOSE * max(abs(other), 1)
    return bool(one == other)
