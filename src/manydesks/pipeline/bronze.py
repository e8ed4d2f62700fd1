"""Bronze: what the office recorded, as it recorded it."""

from __future__ import annotations

from manydesks.pipeline.columns import table

EVENTS = table(
    "events",
    "bronze/events",
    "The ledger, every event exactly once.",
    """
seq long! - The event's number: without a gap, never twice.
at long! - When it happened.
kind text! - What happened; the reference of events has the list.
trace text - The trace it belongs to.
parent text - The message that led to it.
message text - The message it is about.
run text - The run it is about.
session text - The session it is about.
agent text - The agent it is about.
body long - The text it refers to, a row of `bodies`.
data text - The rest, as JSON, by kind.
""",
)

BODIES = table(
    "bodies",
    "bronze/bodies",
    "The texts that events refer to.",
    """
id long! - The text's number.
text text - The text; empty if it was erased.
erased_at long - When it was erased.
""",
)

PIPELINE_RUNS = table(
    "pipeline_runs",
    "pipeline_runs",
    "One row for each run of the pipeline; it is here and not in the ledger, so that a run makes no work for the next.",
    """
job text! - Which job.
started_at long! - When it began.
ended_at long! - When it ended.
seconds real! - How long it took.
ok flag! - Whether it succeeded.
reason text - Why it did not.
from_seq long - What the lake covered before it.
to_seq long - What the lake covers after it.
rows long - Events that it added.
bodies long - Texts that it added.
spark_version text - The version of Spark.
""",
)
