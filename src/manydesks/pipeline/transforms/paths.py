"""Spans in their traces: what each followed from, what of it was its own time, and which of them the end waited for.

Whole traces go in, with every row known so far. Rows are wide, so what has to do with several of them is gathered from
a few columns and joined to them. Functions within a query are said in SQL: those that Python gives to Spark have
another name each time, and Spark would compile them anew in each round of a watch.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

NOWHERE = "the run that led to it is not in its trace"
#: the name of an attempt to deliver that was to begin later
LATER = "again"


def judged(rows: DataFrame, traces: DataFrame) -> DataFrame:
    """With their parents and how long they took; `reason`: why a span cannot be, else NULL. `parent_at` is for `sound`.

    `traces`: of these spans, at least. Of one whose arrival the lake does not have, nobody knows when it began.
    """
    began = traces.selectExpr("trace", "case when first_seq = origin_seq then first_at end as began")
    linked = _linked(_whole(rows)).join(began, "trace", "left").withColumn("start_at", _begun())
    took = {"reason": _fault(), "duration_ms": F.expr("end_at - start_at")}
    return linked.withColumns(took).drop("began", "run_is_there")


def sound(known: DataFrame) -> DataFrame:
    """Of judged spans those that can be. What followed from one that cannot follows from what that followed from, or
    from nothing that is known, if it begins before that."""
    before = F.expr(f"case when reason != '{NOWHERE}' then struct(parent_id as id, parent_at as at) end")
    lost = (
        known.where("reason is not null")
        .groupBy("trace")
        .agg(F.map_from_entries(F.collect_list(F.struct("span_id", before))).alias("lost"))
    )
    found = known.where("reason is null").drop("reason").join(F.broadcast(lost), "trace", "left")
    up = F.expr(
        """aggregate(map_keys(lost), struct(parent_id as id, parent_at as at),
        (parent, _) -> case when map_contains_key(lost, parent.id) then lost[parent.id] else parent end)"""
    )
    lifted = found.withColumn("up", F.when(F.col("lost").isNotNull(), up))
    parent = F.expr("case when lost is null then parent_id when not coalesce(up.at > start_at, false) then up.id end")
    return lifted.withColumn("parent_id", parent).drop("lost", "up")


def placed(spans: DataFrame) -> DataFrame:
    """Spans that can be, with `self_ms` and `on_critical_path`."""
    spans = spans.drop("parent_at")
    return _on_path(_with_self(spans), spans)


def _whole(rows: DataFrame) -> DataFrame:
    """A hold and a delivery end with what comes next of the same message or response: mostly their end, else another
    beginning. Ends are no spans of their own, unless nothing is known of what they end. A hand-off has the last end
    that is told of, and what it had before only if none is: events that are new come after all that is known."""
    alike = Window.partitionBy("trace", "message", F.substring_index("span_id", ":", 2))
    ends = "span_id like '%:end'"
    event = f"substring_index(substring_index(span_id, ':', case when {ends} then -2 else -1 end), ':', 1)"
    phase = f"""struct(try_cast({event} as long) as event, not ({ends}) as begins,
        not ({ends}) and end_at is null as open, case when {ends} then end_at else start_at end as at,
        end_at as until, run, ok)"""
    # the event first: the last one counts, whatever a clock has said
    told = f"struct(try_cast({event} as long) as event, end_at as at, ok)"
    of_phases = "span_id like 'hold:%' or span_id like 'delivery:%'"
    # where one ends and another begins, the end comes first
    following = alike.orderBy("phase.event", "phase.begins", "span_id")
    so_far = following.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = rows.withColumn("phase", F.expr(f"case when {of_phases} then {phase} end")).withColumns(
        {
            "before": F.lag("phase").over(following),
            "after": F.lead("phase").over(following),
            "number": F.sum(F.expr("int(phase.begins)")).over(so_far),
            # of the attempts to deliver a response only the first knows its run
            "told": F.max(F.expr(f"case when span_id like 'handoff:%' and {ends} then {told} end")).over(alike),
            "of_response": F.max(F.expr("case when kind = 'delivery' then concat('run:', run) end")).over(alike),
        }
    )
    reopened = {
        name: f"when kind = 'handoff' and told is not null then told.{value}"
        for name, value in {"end_at": "at", "ok": "ok"}.items()
    }
    ended = {
        name: F.expr(f"case when phase.open then {value} {reopened.get(name, '')} else {name} end")
        for name, value in {
            "end_at": "after.at",
            "ok": "after.ok",
            "start_seq": "coalesce(start_seq, after.event)",
            "run": "case when kind = 'hold' then coalesce(run, after.run) else run end",
        }.items()
    }
    # It was to begin later, and a person has ended it before: after the attempt that failed, or a clock was set back.
    early = f"phase.open and name = '{LATER}' and after.at < start_at and after.at >= before.until"
    ended["start_at"] = F.expr(f"case when {early} then after.at else start_at end")
    ended["attempt"] = F.expr("case when kind = 'delivery' then number else attempt end")
    # nor is the end of a message that nobody handed over
    whole = known.where("kind is not null and (phase is null or phase.begins or before is null)")
    return whole.withColumns(ended).drop("phase", "before", "after", "number", "told")


def _linked(rows: DataFrame) -> DataFrame:
    """With what each followed from, and `parent_at`, when that began; `run_is_there`: whether the run that it names as
    its parent is in its trace; `within`: the hand-off that a wait or a hold lies in, and until when; a wait with the
    run that ended it."""
    same = Window.partitionBy("trace", "message")
    before = same.orderBy("start_seq", "span_id").rowsBetween(Window.unboundedPreceding, -1)
    # a run begins when the wait for it ends
    brought = """case when kind = 'queue' then struct(concat('run:', run) as id, end_at as at)
        when kind = 'hold' and end_at >= start_at then struct(span_id as id, start_at as at) end"""
    handed = F.max(F.expr("case when kind = 'handoff' then struct(span_id as id, start_at as at) end")).over(same)
    led = F.last(F.expr(brought), ignorenulls=True).over(before)
    # a run, the waits that it ended, and all that names it as its parent
    of_run = "case when kind in ('run', 'queue') then run else substring_index(parent_id, 'run:', -1) end"
    around = Window.partitionBy("trace", "of_run")
    first_wait = F.min(F.expr("case when kind = 'queue' then struct(start_seq, span_id as id, start_at as at) end"))
    run_at, run_until = (F.max(F.expr(f"case when kind = 'run' then {at} end")) for at in ("start_at", "end_at"))
    return (
        rows.withColumn("handed", handed)
        .withColumn("led", F.coalesce(led, "handed"))
        .withColumn(
            "parent_id",
            F.expr(
                """case kind when 'queue' then led.id when 'hold' then coalesce(concat('run:', run), handed.id)
                when 'delivery' then coalesce(of_response, led.id)
                when 'run' then null else concat('run:', run) end"""
            ),
        )
        .withColumn("of_run", F.expr(of_run))
        .withColumns(
            {
                "wait": first_wait.over(around),
                "run_at": run_at.over(around),
                "run_until": run_until.over(around),
                "run_is_there": F.max(F.col("kind") == "run").over(around),
            }
        )
        .withColumns(
            {
                "parent_id": F.expr("case when kind = 'run' then wait.id else parent_id end"),
                "parent_at": F.expr(
                    """case when kind = 'run' then wait.at when kind = 'queue' then led.at
                    when kind = 'hold' then case when run is null then handed.at end
                    when parent_id like 'run:%' then run_at when kind = 'delivery' then led.at end"""
                ),
                "within": F.expr(
                    """case when handed is not null and kind in ('hold', 'queue') and end_at is not null then struct(
                    handed.id, case kind when 'queue' then greatest(end_at, run_until) else end_at end as end_at) end"""
                ),
            }
        )
        .drop("of_response", "handed", "led", "of_run", "wait", "run_at", "run_until")
    )


def _begun() -> Column:
    """The office may hear of a tool call only when it is over, and the desk has measured it. What a desk says moves the
    beginning into its run, never before that; and a clock that was set back stays to be seen."""
    measured = "coalesce(try_subtract(end_at, measured_ms), start_at)"
    return F.expr(
        f"""case when kind = 'tool' and start_at <= end_at and {measured} < start_at
        then greatest({measured}, least(parent_at, start_at)) else start_at end"""
    )


def _fault() -> Column:
    return F.expr(
        f"""case when start_at is null then 'it has no beginning'
        when end_at < start_at then 'it ends before it begins'
        when kind = 'tool' and parent_id is null then 'it belongs to no run'
        when kind = 'run' and parent_id is null then 'no message in its trace led to it'
        when kind != 'queue' and parent_id like 'run:%' and not run_is_there
          then '{NOWHERE}'
        when start_at < parent_at or (parent_id is null and start_at < began)
          then 'it begins before what led to it' end"""
    )


def _with_self(spans: DataFrame) -> DataFrame:
    """What of a span lies in none of its children: children may overlap, and reach beyond it.

    A run follows from a wait, and lies in the hand-off of its message all the same: all its waits, holds and runs do.
    """
    # a hold lasts while the run that ends it goes on, and a wait follows from the try before it: neither is work of it
    child = """case when end_at is not null and not (kind in ('hold', 'queue') and parent_id like 'run:%')
        then struct(parent_id as span_id, start_at, end_at) end"""
    handed = "case when within is not null then struct(within.id as span_id, start_at, within.end_at) end"
    lying = spans.selectExpr("trace", f"inline(array_compact(array({child}, {handed})))").where("span_id is not null")
    inner = lying.groupBy("trace", "span_id").agg(
        F.array_sort(F.collect_list(F.struct("start_at", "end_at"))).alias("inner")
    )
    # from left to right: how far the children reach so far, and how much of the span they cover
    covered = F.expr(
        """aggregate(inner, struct(start_at as upto, 0L as sum),
        (so_far, child) -> struct(greatest(so_far.upto, least(child.end_at, end_at)) as upto, so_far.sum
          + greatest(least(child.end_at, end_at) - greatest(child.start_at, so_far.upto), 0L) as sum),
        so_far -> so_far.sum)"""
    )
    own = F.col("duration_ms") - F.coalesce(covered, F.lit(0))
    found = spans.join(inner, ["trace", "span_id"], "left").withColumn("self_ms", own.cast("long"))
    return found.drop("inner", "within")


def _on_path(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """The span that ended last, and whatever it followed from, up to the trace's beginning."""
    step = F.struct("start_seq", F.col("span_id").alias("id"), "parent_id")
    ended = F.struct(F.coalesce("end_at", F.lit(-1)), "start_seq", "span_id")
    walks = (
        # tool calls lead to nothing
        spans.where(F.col("kind") != "tool")
        .groupBy("trace")
        # parents begin before their children: latest first, each parent comes after its child
        .agg(
            F.reverse(F.array_sort(F.collect_list(step))).alias("steps"),
            F.max_by("span_id", ended).alias("last"),
        )
    )
    path = F.expr(
        """aggregate(steps, struct(last as next, cast(array() as array<string>) as ids),
        (walk, step) -> case when step.id = walk.next
          then struct(step.parent_id as next, array_append(walk.ids, step.id) as ids) else walk end,
        walk -> walk.ids)"""
    )
    flagged = rows.join(walks.select("trace", path.alias("path")), "trace", "left")
    on_path = F.coalesce(F.array_contains("path", F.col("span_id")), F.lit(False))
    return flagged.withColumn("on_critical_path", on_path).drop("path")
