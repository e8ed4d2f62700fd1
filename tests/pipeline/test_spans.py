"""Spans of a few events: what belongs together, what each followed from, and what cannot be. Each history is cut at
every place, and comes in two parts: where the cut was must not be seen. Nor must it be that the second part has all of
the first one again, as after a run that died between two tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.pipeline.bronze import EVENTS
from manydesks.pipeline.silver import SPANS, TRACES
from manydesks.pipeline.transforms import paths, spans, traces
from manydesks.pipeline.transforms.fold import merged
from manydesks.testing.history import Made

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Row = tuple[Any, ...]

NOWHERE = paths.NOWHERE


def event(at: int, kind: str, *, message: str | None = "m", run: str | None = None, **data: Any) -> Made:
    return Made(at=at, kind=kind, message=message, run=run, agent="ada", data=data)


@dataclass(frozen=True, kw_only=True)
class Case:
    events: list[Made]
    #: name, parent, length, own time, whether it ended well
    sound: set[Row]
    #: name, why it cannot be
    bad: set[Row] = field(default_factory=set)

    def cuts(self) -> range:
        return range(1, len(self.events) + 1)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, tuple[set[Row], set[Row]]]:
    """By cases and cuts, each in a trace of its own: Spark takes as long for one as for all."""
    parts: list[list[dict[str, Any]]] = [[], []]
    for name, case in CASES.items():
        for cut in case.cuts():
            for seq, each in enumerate(case.events, start=1):
                parts[seq > cut].append(row(each, seq, trace=f"{name} {cut}"))
                for part in parts[seq > cut :]:
                    part.append(row(each, seq, trace=f"{name} {cut} again"))
    before, after = (spark.createDataFrame(part, EVENTS.schema) for part in parts)
    began = merged(TRACES, traces.of_events(before))
    first, second = (spans.of_events(part) for part in (before, after))
    # as silver has them when the second part comes: the sound and the others
    old = paths.judged(merged(SPANS, first), began).select(*first.columns)
    whole = paths.judged(merged(SPANS, second.unionByName(old)), began).cache()
    try:
        placed = paths.placed(paths.sound(whole))
        sound = by_trace(placed, "span_id", "parent_id", "duration_ms", "self_ms", "ok")
        bad = by_trace(whole.where("reason is not null"), "span_id", "reason")
    finally:
        whole.unpersist()
    return {trace: (sound.get(trace, set()), bad.get(trace, set())) for trace in sound.keys() | bad.keys()}


def row(event: Made, seq: int, *, trace: str) -> dict[str, Any]:
    names = ("kind", "trace", "parent", "message", "run", "session", "agent", "data")
    values = dict(zip(names, event.told(), strict=True))
    return dict.fromkeys(EVENTS.schema.names) | values | {"seq": seq, "at": event.at, "trace": trace}


def by_trace(rows: DataFrame, *columns: str) -> dict[str, set[Row]]:
    found: dict[str, set[Row]] = {}
    for one in rows.select("trace", *columns).collect():
        found.setdefault(one[0], set()).add(tuple(one[1:]))
    return found


CASES = {
    "a message that is held again and again": Case(
        events=[
            event(0, "message_received", message="m0", run="r0", attempt=1, queue_ms=0),
            event(0, "chain_step_start", message="m0", run="r0", attempt=1),
            event(100, "chain_handoff", run="r0", **{"from": "ada", "to": "ada"}),
            event(100, "message_held", reason="chain"),
            event(150, "message_held", reason="chain broke"),  # still held, now for another reason
            event(200, "message_completed", message="m0", run="r0"),
            event(200, "chain_step_done", message="m0", run="r0", outcome="completed"),
            event(200, "message_released", run="r0"),
            event(250, "message_held", reason="budget"),
            event(450, "message_released"),
            event(500, "message_received", run="r1", attempt=1, queue_ms=50),
            event(600, "message_retried", run="r1", attempt=1),
            event(650, "message_held", reason="budget"),
            event(850, "message_released"),
            event(900, "message_received", run="r2", attempt=2, queue_ms=50),
            event(950, "message_held", message="m9", reason="approval"),  # and still is
            event(1000, "message_completed", run="r2"),
        ],
        sound={
            ("queue:m0:r0", None, 0, 0, True),
            ("run:r0", "queue:m0:r0", 200, 100, True),
            # from 100 to 1000; between 200 and 250, and 600 and 650, its message was neither held nor taken
            ("handoff:m", "run:r0", 900, 100, True),
            ("hold:m:4", "handoff:m", 50, 50, None),
            ("hold:m:5", "run:r0", 50, 50, None),
            ("hold:m:9", "handoff:m", 200, 200, None),
            ("queue:m:r1", "hold:m:9", 50, 50, True),
            ("run:r1", "queue:m:r1", 100, 100, False),
            ("hold:m:13", "handoff:m", 200, 200, None),
            ("queue:m:r2", "hold:m:13", 50, 50, True),
            ("run:r2", "queue:m:r2", 100, 100, True),
            ("hold:m9:16", None, None, None, None),
        },
    ),
    "what followed from nothing that is there": Case(
        events=[
            event(0, "message_released"),  # nothing was held
            event(0, "chain_step_start", run="r0", attempt=1),  # nothing was taken
            event(10, "tool_called", run="r0", tool="Bash", call="c1"),  # its run is known, though it cannot be
            event(20, "tool_called", run="r8", tool="Bash", call="c2"),
            event(30, "chain_handoff", message="m2", run="r8", **{"from": "ada", "to": "bob"}),
            event(40, "response_ready", run="r8", response=1, channel="console"),
            event(50, "response_delivered", response=1, attempt=1),
            event(60, "response_ready", response=2, channel="console"),  # the office's own
            event(70, "message_held", message="m3", reason="join"),
            event(80, "message_released", message="m3", run="r8"),
            event(90, "response_delivered", response=3, attempt=1),
            event(100, "message_received", message="m2", run="r9", attempt=1, queue_ms=70),
            event(110, "chain_step_start", attempt=1),  # of no run
        ],
        sound={
            # they followed from what cannot be, and that from nothing
            ("tool:r0:c1", None, None, None, None),
            ("queue:m2:r9", None, 70, 70, True),
            ("run:r9", "queue:m2:r9", None, None, None),
            ("delivery:2:8", None, None, None, None),
        },
        bad={
            ("hold:m:1:end", "it has no beginning"),
            ("run:r0", "no message in its trace led to it"),
            ("unnamed:13", "no message in its trace led to it"),
            ("tool:r8:c2", NOWHERE),
            ("handoff:m2", NOWHERE),
            ("delivery:1:6", NOWHERE),
            ("delivery:3:11:end", "it has no beginning"),
            ("hold:m3:9", NOWHERE),
        },
    ),
    # in the eyes of each: that it ended well for one message is not undone by what comes later
    "one run for the messages of two traces and one that failed": Case(
        events=[
            event(0, "message_received", run="r0", attempt=1, queue_ms=0),
            event(10, "message_received", message="m2", run="r0", attempt=1, queue_ms=5),
            event(100, "message_completed", run="r0"),
            event(150, "message_retried", message="m2", run="r0", attempt=1),
            event(150, "chain_step_done", run="r0", outcome="failed"),
            event(200, "message_received", message="m2", run="r1", attempt=2, queue_ms=20),
            event(230, "message_returned", message="m2", run="r1"),
        ],
        sound={
            ("queue:m:r0", None, 0, 0, True),
            ("queue:m2:r0", None, 5, 5, True),
            ("run:r0", "queue:m:r0", 150, 150, True),
            ("queue:m2:r1", "run:r0", 20, 20, True),
            ("run:r1", "queue:m2:r1", 30, 30, False),
        },
    ),
    "a message that dies and is cancelled while it is held, and what the office says of it": Case(
        events=[
            event(0, "chain_handoff", **{"from": "ada", "to": "ada"}),
            event(0, "message_held", reason="chain"),
            event(100, "message_dead"),
            event(100, "response_ready", response=1, channel="console"),  # nobody's run wrote it
            event(150, "response_delivered", response=1, attempt=1),
            event(300, "message_requeued"),
            event(340, "message_received", run="r0", attempt=1, queue_ms=40),
            event(400, "message_dead", run="r0"),
            event(400, "response_ready", response=2, channel="console"),
            event(450, "response_retried", response=2, attempt=1, next_at=500),
            event(520, "response_delivered", response=2, attempt=2),
            event(530, "message_held", message="m2", reason="loop"),
            event(630, "message_cancelled", message="m2"),
            event(640, "message_cancelled", message="m3"),  # it was in no lane
        ],
        sound={
            ("handoff:m", None, 400, 200, False),  # dead for 200
            ("hold:m:2", "handoff:m", 100, 100, None),
            ("delivery:1:4", "hold:m:2", 50, 50, True),
            ("queue:m:r0", "hold:m:2", 40, 40, True),
            ("run:r0", "queue:m:r0", 60, 60, False),
            ("delivery:2:9", "run:r0", 50, 50, False),
            ("delivery:2:10", "run:r0", 20, 20, True),
            ("hold:m2:12", None, 100, 100, None),
        },
    ),
    "a hand-off whose message got new attempts is open again": Case(
        events=[
            event(0, "chain_handoff", **{"from": "ada", "to": "ada"}),
            event(20, "message_received", run="r0", attempt=1, queue_ms=20),
            event(100, "message_dead", run="r0"),
            event(300, "message_requeued"),
            event(340, "message_received", run="r1", attempt=1, queue_ms=40),
        ],
        sound={
            ("handoff:m", None, None, None, None),
            ("queue:m:r0", "handoff:m", 20, 20, True),
            ("run:r0", "queue:m:r0", 80, 80, False),
            ("queue:m:r1", "run:r0", 40, 40, True),
            ("run:r1", "queue:m:r1", None, None, None),
        },
    ),
    "a hand-off's last end counts, also by a clock that was set back": Case(
        events=[
            event(0, "chain_handoff", **{"from": "ada", "to": "ada"}),
            event(100, "message_dead"),
            event(300, "message_requeued"),
            event(50, "message_dead"),
            event(50, "message_requeued"),
            event(50, "message_completed"),
            event(400, "chain_handoff", message="m2", **{"from": "ada", "to": "bob"}),
            event(500, "message_dead", message="m2"),
            event(600, "message_requeued", message="m2"),
            event(600, "message_cancelled", message="m2"),
        ],
        sound={("handoff:m", None, 50, 50, True), ("handoff:m2", None, 200, 200, False)},
    ),
    "responses that are fetched, sent again, given up": Case(
        events=[
            event(0, "message_received", run="r0", attempt=1, queue_ms=0),
            event(100, "response_ready", run="r0", response=1, channel="api"),
            event(100, "response_ready", run="r0", response=2, channel="api"),
            event(100, "response_ready", run="r0", response=3, channel="api"),
            event(100, "message_completed", run="r0"),
            event(300, "response_delivered", response=1, attempt=0, receipt="acknowledged"),
            event(310, "response_retried", response=2, attempt=1, next_at=320),
            event(330, "response_dead", response=2, attempt=2),
            event(400, "response_released", response=2, reason="sent again"),
            event(450, "response_delivered", response=2, attempt=1),
            event(460, "response_held", response=3),
            event(500, "response_released", response=3),
            event(550, "response_expired", response=3),
            event(560, "response_withdrawn", response=3),  # as nothing was under way, nothing ends
        ],
        sound={
            ("queue:m:r0", None, 0, 0, True),
            ("run:r0", "queue:m:r0", 100, 100, True),
            ("delivery:1:2", "run:r0", 200, 200, True),
            ("delivery:2:3", "run:r0", 210, 210, False),
            ("delivery:2:7", "run:r0", 10, 10, False),
            ("delivery:2:9", "run:r0", 50, 50, True),
            ("delivery:3:4", "run:r0", 360, 360, False),
            ("delivery:3:12", "run:r0", 50, 50, False),
        },
    ),
    "a response that a person gives up, or has, before its next attempt": Case(
        events=[
            event(0, "message_received", run="r0", attempt=1, queue_ms=0),
            event(100, "response_ready", run="r0", response=1, channel="api"),
            event(100, "response_ready", run="r0", response=2, channel="api"),
            event(100, "response_ready", run="r0", response=3, channel="api"),
            event(100, "message_completed", run="r0"),
            event(110, "response_retried", response=1, attempt=1, next_at=900),
            event(110, "response_retried", response=2, attempt=1, next_at=900),
            event(110, "response_retried", response=3, attempt=1, next_at=900),
            event(200, "response_withdrawn", response=1),
            event(300, "response_delivered", response=2, attempt=1, receipt="acknowledged"),
            event(90, "response_dead", response=3, attempt=2),  # a clock was set back
            event(500, "response_released", response=1),
            event(450, "response_delivered", response=1, attempt=1),  # and here
        ],
        sound={
            ("queue:m:r0", None, 0, 0, True),
            ("run:r0", "queue:m:r0", 100, 100, True),
            ("delivery:1:2", "run:r0", 10, 10, False),
            ("delivery:1:6", "run:r0", 0, 0, False),
            ("delivery:2:3", "run:r0", 10, 10, False),
            ("delivery:2:7", "run:r0", 0, 0, True),
            ("delivery:3:4", "run:r0", 10, 10, False),
        },
        bad={("delivery:3:8", "it ends before it begins"), ("delivery:1:12", "it ends before it begins")},
    ),
    "a tool call that the office heard of at once, when it was over": Case(
        events=[
            event(1000, "message_received", run="r0", attempt=1, queue_ms=0),
            event(1500, "tool_called", run="r0", tool="Bash", call="c1"),
            event(1500, "tool_done", run="r0", tool="Bash", call="c1", ok=True, duration_ms=470),
            event(1600, "tool_called", run="r0", tool="Bash", call="c2"),
            event(1700, "tool_done", run="r0", tool="Bash", call="c2", ok=True, duration_ms=95),
            event(1800, "tool_called", run="r0", tool="Bash", call="c3"),
            event(1810, "tool_done", run="r0", tool="Bash", call="c3", ok=False, duration_ms=-5),
            event(2000, "message_completed", run="r0"),
            event(2100, "message_received", message="m2", run="r1", attempt=1, queue_ms=0),
            event(2200, "tool_called", message="m2", run="r1", tool="Bash", call="c4"),
            event(2200, "tool_done", message="m2", run="r1", tool="Bash", call="c4", ok=True, duration_ms=2**63 - 1),
            event(2300, "tool_done", message="m2", run="r1", tool="Bash", call="c5", ok=True, duration_ms=10),
            event(2300, "tool_called", message="m2", run="r1", tool="Bash", call="c6"),
            event(2250, "tool_done", message="m2", run="r1", tool="Bash", call="c6", ok=True, duration_ms=90),
            event(2400, "message_completed", message="m2", run="r1"),
        ],
        sound={
            ("queue:m:r0", None, 0, 0, True),
            ("run:r0", "queue:m:r0", 1000, 420, True),
            ("tool:r0:c1", "run:r0", 470, 470, True),
            ("tool:r0:c2", "run:r0", 100, 100, True),
            ("tool:r0:c3", "run:r0", 10, 10, False),
            ("queue:m2:r1", None, 0, 0, True),
            ("run:r1", "queue:m2:r1", 300, 200, True),
            ("tool:r1:c4", "run:r1", 100, 100, True),  # nobody takes longer than the run until then
        },
        bad={("tool:r1:c5", "it has no beginning"), ("tool:r1:c6", "it ends before it begins")},
    ),
    "a clock that is set back in a run, and again in the one after it": Case(
        events=[
            event(1000, "message_received", run="r0", attempt=1, queue_ms=100),
            event(1010, "tool_called", run="r0", tool="Bash", call="c1"),
            event(1020, "tool_done", run="r0", tool="Bash", call="c1", ok=True),
            event(900, "message_retried", run="r0", attempt=1),
            event(1100, "message_received", run="r1", attempt=2, queue_ms=0),
            event(1200, "chain_handoff", message="m2", run="r1", **{"from": "ada", "to": "ada"}),
            event(1050, "message_completed", run="r1"),
            event(1300, "message_received", message="m2", run="r2", attempt=1, queue_ms=100),
            event(1400, "message_completed", message="m2", run="r2"),
        ],
        sound={
            ("queue:m:r0", None, 100, 100, True),
            ("tool:r0:c1", "queue:m:r0", 10, 10, True),
            ("queue:m:r1", "queue:m:r0", 0, 0, True),
            ("handoff:m2", "queue:m:r1", 200, 0, True),
            ("queue:m2:r2", "handoff:m2", 100, 100, True),
            ("run:r2", "queue:m2:r2", 100, 100, True),
        },
        bad={("run:r0", "it ends before it begins"), ("run:r1", "it ends before it begins")},
    ),
    "a clock that is set back": Case(
        events=[
            event(1000, "message_received", run="r0", attempt=1, queue_ms=0),
            event(900, "tool_called", run="r0", tool="Bash", call="c1"),
            event(1100, "message_retried", run="r0", attempt=1),
            event(500, "message_received", run="r1", attempt=2, queue_ms=0),
            event(600, "message_completed", run="r1"),
        ],
        sound={
            ("queue:m:r0", None, 0, 0, True),
            ("run:r0", "queue:m:r0", 100, 100, False),
            # the wait for it cannot be, and by the clock it cannot follow from what led to that either
            ("run:r1", None, 100, 100, True),
        },
        bad={
            ("tool:r0:c1", "it begins before what led to it"),
            ("queue:m:r1", "it begins before what led to it"),
        },
    ),
    "a clock that is set back between a hand-off, what holds its message, and what is told of it": Case(
        events=[
            event(1000, "chain_handoff", **{"from": "ada", "to": "ada"}),
            event(700, "message_held", reason="chain"),
            event(1200, "message_released"),
            event(2000, "message_held", message="m2", reason="budget"),
            event(2100, "message_released", message="m2"),
            event(1900, "response_ready", message="m2", response=1, channel="console"),
            event(2150, "response_delivered", message="m2", response=1, attempt=1),
        ],
        sound={
            ("handoff:m", None, None, None, None),
            ("hold:m2:4", None, 100, 100, None),
        },
        bad={
            ("hold:m:2", "it begins before what led to it"),
            ("delivery:1:6", "it begins before what led to it"),
        },
    ),
    "a clock that is set back between the arrival and the run, and forth after it": Case(
        events=[
            event(9000, "message_enqueued"),
            event(1000, "message_received", run="r0", attempt=1, queue_ms=0),
            event(1100, "chain_handoff", message="m2", run="r0", **{"from": "ada", "to": "ada"}),
            event(1200, "message_completed", run="r0"),
            event(9300, "message_received", message="m2", run="r1", attempt=1, queue_ms=0),
            event(9400, "message_completed", message="m2", run="r1"),
        ],
        sound={
            ("run:r0", None, 200, 100, True),
            ("handoff:m2", "run:r0", 8300, 8200, True),
            ("queue:m2:r1", "handoff:m2", 0, 0, True),
            ("run:r1", "queue:m2:r1", 100, 100, True),
        },
        bad={("queue:m:r0", "it begins before what led to it")},
    ),
    # its own run cannot be, and it begins before the wait for that as well
    "what begins before the parent of one that cannot be": Case(
        events=[
            event(1000, "message_received", run="r0", attempt=1, queue_ms=0),
            event(800, "chain_step_start", run="r0", attempt=1),
            event(850, "tool_called", run="r0", tool="Bash", call="c1"),
            event(900, "tool_done", run="r0", tool="Bash", call="c1", ok=True),
            event(1200, "message_completed", run="r0"),
        ],
        sound={("queue:m:r0", None, 0, 0, True), ("tool:r0:c1", None, 50, 50, True)},
        bad={("run:r0", "it begins before what led to it")},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_spans(found: dict[str, tuple[set[Row], set[Row]]], name: str) -> None:
    case = CASES[name]
    for cut in case.cuts():
        for trace in (f"{name} {cut}", f"{name} {cut} again"):
            assert found[trace] == (case.sound, case.bad), trace
