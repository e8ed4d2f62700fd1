"""`runs` and `usage`: what agents did, and what it took."""

from __future__ import annotations

from pyspark.sql import DataFrame

from manydesks.pipeline.silver import RUNS, USAGE
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import events_of, micro, number_of, of_kinds, when

START, DONE, USED = "chain_step_start", "chain_step_done", "run_usage"
FIELDS = "provider model attempt outcome reason duration_ms input output cache_read cache_write cost_usd ok"


def of_events(events: DataFrame) -> DataFrame:
    # all of them tell of the trace of the run's first message
    told = events_of(events, f"{START} {DONE} {USED} tool_called tool_done", FIELDS, plain="tool_called")
    found = told.where("run is not null")
    return partial(
        RUNS,
        found,
        run="run",
        trace="trace",
        message="message",
        agent="agent",
        session="session",
        provider=when(START, "d_provider"),
        model=when(START, "d_model"),
        used_model=when(USED, "d_model"),
        attempt=when(START, "d_attempt"),
        started_at=when(START, "at"),
        ended_at=when(DONE, "at"),
        duration_ms=when(DONE, "d_duration_ms"),
        outcome=when(DONE, "d_outcome"),
        reason=when(DONE, "d_reason"),
        input_tokens=when(USED, "d_input"),
        output_tokens=when(USED, "d_output"),
        cache_read_tokens=when(USED, "d_cache_read"),
        cache_write_tokens=when(USED, "d_cache_write"),
        cost_microusd=when(USED, micro("d_cost_usd")),
        tools=number_of("tool_called"),
        tools_failed=f"case when {of_kinds('tool_done')} and not d_ok then 1 else 0 end",
    )


def usage_of_events(events: DataFrame) -> DataFrame:
    found = events_of(events, f"{START} {USED}", FIELDS).where("run is not null")
    return partial(
        USAGE,
        found,
        run="run",
        trace="trace",
        agent="agent",
        provider=when(START, "d_provider"),
        model=when(USED, "d_model"),
        at=when(USED, "at"),
        input_tokens=when(USED, "d_input"),
        output_tokens=when(USED, "d_output"),
        cache_read_tokens=when(USED, "d_cache_read"),
        cache_write_tokens=when(USED, "d_cache_write"),
        cost_microusd=when(USED, micro("d_cost_usd")),
    )
