"""A history written by hand, and what must come of it, worked out by hand from `golden/history.txt`, not from the code.

Times are milliseconds. Percentiles: the values sorted, the place is share × (number − 1), in between in proportion.
Example, the waits of ada's messages of March 2: m1 100, m4 100, m7 300 (since it was let go), m8 500. p50: place 1.5,
between 100 and 300: 200. p95: place 2.85: 300 + 0.85 × 200 = 470. p99: place 2.97: 300 + 0.97 × 200 = 494.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.clock import SystemClock
from manydesks.domain.event import KINDS
from manydesks.pipeline import tables
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.jobs.gold import Gold
from manydesks.pipeline.jobs.silver import Silver
from manydesks.pipeline.lock import hold
from manydesks.pipeline.schemas import TABLES
from manydesks.testing.history import Made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Ledger

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

HISTORY = Path(__file__).with_name("golden") / "history.txt"
ENVELOPE = {"t": "trace", "m": "message", "r": "run", "a": "agent", "p": "parent"}
MON, TUE, WED = "2026-03-02", "2026-03-03", "2026-03-04"


def read(text: str) -> Iterator[Made]:
    """The events of a history in the form that its first lines describe."""
    day = ""
    for line in text.splitlines():
        if line.startswith("day "):
            day = line.removeprefix("day ")
        elif line and not line.startswith("#"):
            time, kind, *rest = shlex.split(line)
            about: dict[str, Any] = {}
            data: dict[str, Any] = {}
            for word in rest:
                # a word with a blank before any `=`, or without one, is the text
                name, found, value = word.partition("=")
                if not found or not re.fullmatch(r"\w+", name):
                    about["text"] = word
                elif name in ENVELOPE:
                    about[ENVELOPE[name]] = value
                else:
                    data[name] = moment(day, value[1:]) if value.startswith("@") else plain(value)
            if "agent" in about and "message" in about:
                about["session"] = f"session-{about['agent']}"
            yield Made(at=moment(day, time), kind=kind, data=data, **about)


def moment(day: str, time: str) -> int:
    return round(datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC).timestamp() * 1000)


def plain(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


@dataclass(frozen=True, kw_only=True)
class Golden:
    """The lake of this history."""

    spark: SparkSession
    lake: Path

    def rows(self, name: str, columns: str, *, where: str = "true") -> set[tuple[Any, ...]]:
        found = tables.read(self.spark, self.lake, TABLES[name]).where(where).select(*columns.split()).collect()
        rows = [tuple(_rounded(value) for value in row) for row in found]
        assert len(set(rows)) == len(rows)
        return set(rows)


def _rounded(value: Any) -> Any:
    """Money and percentiles to what can be written by hand."""
    return round(value, 6) if isinstance(value, float) else value


def quiet(step: str, done: int, total: int) -> None: ...


@pytest.fixture(scope="module")
def golden(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, make_ledger: Callable[[Path], Ledger]
) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    ledger, lake = make_ledger(folder / "office.db"), folder / "lake"
    ledger.tell(read(HISTORY.read_text(encoding="utf-8")))
    archive(ledger.path, lake, spark, quiet)
    with hold(lake) as held:
        Silver(held, spark, quiet, SystemClock()).refresh()
        Gold(held, spark, quiet, SystemClock()).refresh()
    return Golden(spark=spark, lake=lake)


def test_it_speaks_as_the_ledger_does() -> None:
    events = list(read(HISTORY.read_text(encoding="utf-8")))
    assert 190 <= len(events) <= 210
    for event in events:
        strange = event.data.keys() - set(KINDS[event.kind].fields)
        assert not strange, (event.kind, strange)


#: trace, span, parent, milliseconds, of these its own, ended well, on the critical path.
#: Its own are those in which no tool call, wait, hand-off or delivery below it was under way; of a hand-off, in which
#: its message neither waited nor was worked on.
SPANS = """
t1  queue:m1:r1    -             100   100   yes  path
t1  run:r1         queue:m1:r1   2000  1100  yes  path   # 2000 - 300 - 600
t1  tool:r1:c1     run:r1        300   300   yes  -
t1  tool:r1:c2     run:r1        600   600   no   -
t1  delivery:1:13  run:r1        50    50    yes  path
t2  queue:m2:r2    -             200   200   yes  path
t2  run:r2         queue:m2:r2   1000  1000  no   path
t2  queue:m2:r3    run:r2        300   300   yes  path   # from the end of the back-off
t2  run:r3         queue:m2:r3   3000  3000  yes  path
t2  delivery:2:27  run:r3        1000  1000  no   -
t2  delivery:2:31  run:r3        200   200   yes  path   # from the next try on
t3  queue:m3:r4    -             1000  1000  yes  path
t3  run:r4         queue:m3:r4   2000  2000  no   path
t3  queue:m3:r5    run:r4        400   400   yes  path
t3  run:r5         queue:m3:r5   1000  1000  no   path
t3  delivery:3:43  run:r5        200   200   yes  path   # the office wrote it, because of that
t4  queue:m4:r6    -             100   100   yes  -
t4  run:r6         queue:m4:r6   1000  1000  yes  -
t4  delivery:4:62  run:r6        100   100   yes  -
t4  queue:m5:r7    -             200   200   yes  path
t4  run:r7         queue:m5:r7   4000  4000  yes  path   # what it let go was not its own doing
t4  delivery:5:72  run:r7        100   100   yes  -
t4  queue:m6:r8    -             300   300   yes  -
t4  run:r8         queue:m6:r8   2000  2000  yes  -
t4  delivery:6:67  run:r8        200   200   yes  -
t4  hold:m7:55     run:r7        4200  4200  ?    path   # 55: the event that held it
t4  queue:m7:r9    hold:m7:55    300   300   yes  path
t4  run:r9         queue:m7:r9   1000  1000  yes  path
t4  delivery:7:80  run:r9        100   100   yes  path
t5  queue:m8:r10   -             500   500   yes  path
t5  run:r10        queue:m8:r10  5000  5000  yes  path
t5  delivery:8:89  run:r10       100   100   yes  -
t5  handoff:m9     run:r10       7000  0     yes  path   # 7000 - 2000 of waiting - 5000 of the run
t5  queue:m9:r11   handoff:m9    2000  2000  yes  path
t5  run:r11        queue:m9:r11  5000  5000  yes  path
t5  delivery:9:99  run:r11       200   200   yes  -
t5  handoff:m10    run:r11       2500  0     yes  -
t5  queue:m10:r12  handoff:m10   500   500   yes  -
t5  run:r12        queue:m10:r12 2000  2000  yes  -
t5  delivery:10:114 run:r12       100   100   yes  -
t5  handoff:m11    run:r11       5000  0     yes  path
t5  queue:m11:r13  handoff:m11   1000  1000  yes  path
t5  run:r13        queue:m11:r13 4000  4000  yes  path
t5  delivery:11:119 run:r13       500   500   yes  path
t6  queue:m12:r14  -             100   100   yes  path
t6  run:r14        queue:m12:r14 1000  1000  yes  path
t6  delivery:12:131 run:r14       100   100   yes  -
t6  hold:m13:128   run:r14       1100  1100  ?    path
t6  queue:m13:r15  hold:m13:128  500   500   yes  path
t6  run:r15        queue:m13:r15 2000  2000  yes  path
t6  delivery:13:139 run:r15       100   100   yes  path
t8  queue:m15:r16  -             50    50    yes  path
t8  run:r16        queue:m15:r16 ?     ?     ?    -      # under way
t9  queue:m16:r17  -             100   100   yes  path
t9  run:r17        queue:m16:r17 2000  2000  yes  path   # calls that cannot be take nothing away
t9  delivery:14:158 run:r17       100   100   yes  path
t10 queue:m17:r18  -             100   100   yes  path
t10 run:r18        queue:m17:r18 1000  1000  no   path
t10 delivery:15:168 run:r18      400   400   no   -
t10 queue:m17:r19  run:r18       500   500   yes  path   # a day later
t10 run:r19        queue:m17:r19 2000  2000  yes  path
t10 delivery:16:175 run:r19      1797500 1797500 no path  # until it was given up
t11 queue:m18:r20  -             2000  2000  yes  path
t11 run:r20        queue:m18:r20 3000  3000  yes  path
t11 delivery:17:187 run:r20       400   400   yes  path
t12 queue:m19:r20  -             1000  1000  yes  path
t12 run:r20        queue:m19:r20 3000  3000  yes  path   # it began with the message of the other trace
t12 delivery:18:192 run:r20       600   600   yes  path
t13 hold:m21:199   -             1000  1000  ?    -      # it had entered the lane when it was held again
t13 hold:m21:201   -             3000  3000  ?    path
t13 queue:m21:r21  hold:m21:201  200   200   yes  path
t13 run:r21        queue:m21:r21 1000  1000  yes  path
t14 run:r22        -             ?     ?     ?    path   # the wait before it cannot be
"""


def test_spans(golden: Golden) -> None:
    words = {"yes": True, "no": False, "?": None, "path": True, "-": False}
    wanted = set()
    for line in SPANS.strip().splitlines():
        trace, span, parent, took, own, ok, path = line.partition("#")[0].split()
        numbers = (None if number == "?" else int(number) for number in (took, own))
        wanted.add((trace, span, None if parent == "-" else parent, *numbers, words[ok], words[path]))
    found = golden.rows("spans", "trace span_id parent_id duration_ms self_ms ok on_critical_path")
    assert found == wanted
    # all of a trace is in the day on which it began, also what happened after midnight
    assert golden.rows("spans", "day trace", where="span_id = 'delivery:11:119'") == {(MON, "t5")}


def test_spans_that_cannot_be(golden: Golden) -> None:
    assert golden.rows("quarantined_spans", "trace span_id reason") == {
        ("t9", "tool:r17:c1", "it ends before it begins"),
        ("t9", "tool:r17:c9", "it has no beginning"),
        ("t13", "tool:r99:c5", "the run that led to it is not in its trace"),
        ("t14", "queue:m22:r22", "it begins before what led to it"),  # five seconds before the arrival
    }


def test_messages(golden: Golden) -> None:
    odd = "message_id status attempts retries queue_ms held_reason last_error deaths"
    wanted = {
        ("m2", "completed", 2, 1, 200, None, "the service answered 529", 0),
        ("m3", "dead", 2, 1, 1000, None, "crash again", 1),
        ("m7", "completed", 1, 0, 300, "join", None, 0),
        ("m13", "completed", 1, 0, 500, "chain", None, 0),
        ("m14", "cancelled", 0, 0, None, None, None, 0),
        ("m15", "processing", 1, 0, 50, None, None, 0),
        ("m17", "completed", 2, 0, 100, None, "no key", 1),  # one before and one after it was given new attempts
        ("m20", "cancelled", 0, 0, None, None, None, 0),
        ("m21", "completed", 1, 0, 200, "budget", None, 0),
        ("m22", "processing", 1, 0, 0, None, None, 0),
    }
    names = ",".join(f"'{row[0]}'" for row in wanted)
    assert golden.rows("messages", odd, where=f"message_id in ({names})") == wanted
    plain = {f"m{number}" for number in range(1, 23)} - {row[0] for row in wanted}
    assert golden.rows("messages", "status attempts message_id", where=f"message_id not in ({names})") == {
        ("completed", 1, name) for name in plain
    }


def test_agent_daily_counts(golden: Golden) -> None:
    columns = "messages completed dead cancelled retries runs failed_runs handoffs_in handoffs_out"
    assert golden.rows("agent_daily", f"day agent {columns}") == {
        # March 2. ada: m1 m4 m7 m8, r1 r6 r9 r10; bob: m2 m5 m9, r2 r3 r7 r11; cy: m3 m6, r4 r5 r8
        (MON, "ada", 4, 4, 0, 0, 0, 4, 0, 0, 1),
        (MON, "bob", 3, 3, 0, 0, 1, 4, 1, 1, 0),
        (MON, "cy", 2, 1, 1, 0, 1, 3, 2, 0, 0),
        # March 3. ada: m11 m12 m16, r13 r14 r17; bob: m13 m15 m17, r15 r16 r18; cy: m10 m14, r12
        (TUE, "ada", 3, 3, 0, 0, 0, 3, 0, 1, 0),
        (TUE, "bob", 3, 2, 0, 0, 0, 3, 1, 0, 2),
        (TUE, "cy", 2, 1, 0, 1, 0, 1, 0, 1, 0),
        # March 4. ada: m18 m19, r20; bob: m20 of the office, r19; cy: m21 m22, r21
        (WED, "ada", 2, 2, 0, 0, 0, 1, 0, 0, 0),
        (WED, "bob", 1, 0, 0, 1, 0, 1, 0, 0, 0),
        (WED, "cy", 2, 1, 0, 0, 0, 1, 0, 0, 0),
    }


def test_agent_daily_costs(golden: Golden) -> None:
    assert golden.rows("agent_daily", "day agent input_tokens output_tokens cost_usd unknown_cost_runs") == {
        (MON, "ada", 3300, 630, 0.021, 0),  # 1000+100+200+2000, 200+10+20+400, 0.006+0.001+0.002+0.012
        (MON, "bob", 3300, 550, 0.037, 1),  # 400+600+800+1500, 0+100+150+300, 0.01+0.007+0.02; r2 unknown
        (MON, "cy", None, None, None, 3),
        (TUE, "ada", 2200, 220, 0.011, 0),  # 1000+500+700, 100+50+70, 0.005+0.002+0.004
        (TUE, "bob", 300, 60, 0.003, 1),  # r15; r18 unknown; r16 has not ended
        (TUE, "cy", None, None, None, 1),
        (WED, "ada", 900, 90, 0.009, 0),
        (WED, "bob", 800, 80, 0.008, 0),
        (WED, "cy", None, None, None, 1),
    }


@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        (
            "queue",
            {
                (MON, "ada", 200, 470, 494),  # 100 100 300 500
                (MON, "bob", 200, 1820, 1964),  # 200 200 2000: 200 + 0.9 and 0.98 × 1800
                (MON, "cy", 650, 965, 993),  # 300 1000
                (TUE, "ada", 100, 910, 982),  # 100 100 1000
                (TUE, "bob", 100, 460, 492),  # 50 100 500
                (TUE, "cy", 500, 500, 500),  # 500; m14 was never taken
                (WED, "ada", 1500, 1950, 1990),  # 1000 2000
                (WED, "bob", None, None, None),
                (WED, "cy", 100, 190, 198),  # 0 200
            },
        ),
        (
            "run",
            {
                (MON, "ada", 1500, 4550, 4910),  # 1000 1000 2000 5000
                (MON, "bob", 3500, 4850, 4970),  # 1000 3000 4000 5000
                (MON, "cy", 2000, 2000, 2000),  # 1000 2000 2000
                (TUE, "ada", 2000, 3800, 3960),  # 1000 2000 4000
                (TUE, "bob", 1500, 1950, 1990),  # 1000 2000
                (TUE, "cy", 2000, 2000, 2000),
                (WED, "ada", 3000, 3000, 3000),
                (WED, "bob", 2000, 2000, 2000),
                (WED, "cy", 1000, 1000, 1000),
            },
        ),
        (
            "delivery",
            {
                (MON, "ada", 100, 100, 100),  # 50 100 100 100
                (MON, "bob", 3150, 5895, 6139),  # 100 6200
                (MON, "cy", 200, 200, 200),
                (TUE, "ada", 100, 460, 492),  # 100 100 500
                (TUE, "bob", 150, 195, 199),  # 100 200; 15 is unsure
                (TUE, "cy", 100, 100, 100),
                (WED, "ada", 500, 590, 598),  # 400 600
                (WED, "bob", None, None, None),  # 16 has expired
                (WED, "cy", None, None, None),
            },
        ),
    ],
)
def test_agent_daily_percentiles(golden: Golden, what: str, wanted: set[tuple[Any, ...]]) -> None:
    assert golden.rows("agent_daily", f"day agent {what}_p50_ms {what}_p95_ms {what}_p99_ms") == wanted


def test_channel_daily(golden: Golden) -> None:
    counts, times = (
        "messages responses delivered dead unsure expired",
        "delivery_p50_ms delivery_p95_ms delivery_p99_ms",
    )
    assert golden.rows("channel_daily", f"day channel {counts} {times}") == {
        (MON, "console", 2, 2, 2, 0, 0, 0, 75, 97.5, 99.5),  # m1 m8, without m9; 50 100
        (MON, "api", 1, 1, 1, 0, 0, 0, 6200, 6200, 6200),
        (MON, "telegram", 1, 1, 1, 0, 0, 0, 200, 200, 200),
        (MON, "matrix", 4, 4, 4, 0, 0, 0, 100, 185, 197),  # 100 100 100 200
        (TUE, "console", 3, 6, 6, 0, 0, 0, 100, 425, 485),  # m12 m13 m16; 100 100 100 100 200 500
        (TUE, "api", 2, 0, 0, 0, 0, 0, None, None, None),
        (TUE, "telegram", 1, 1, 0, 0, 1, 0, None, None, None),
        (WED, "console", 2, 2, 2, 0, 0, 0, 500, 590, 598),  # without the office's own m20
        (WED, "api", 2, 0, 0, 0, 0, 0, None, None, None),
        (WED, "telegram", 0, 1, 0, 0, 0, 1, None, None, None),
    }


def test_handoff_matrix(golden: Golden) -> None:
    assert golden.rows("handoff_matrix", "day from_agent to_agent handoffs") == {
        (MON, "ada", "bob", 1),
        (TUE, "bob", "cy", 1),  # after midnight, in a trace of the day before
        (TUE, "bob", "ada", 1),
    }


def test_cost_daily(golden: Golden) -> None:
    tokens = "input_tokens output_tokens cache_read_tokens cache_write_tokens"
    assert golden.rows("cost_daily", f"day agent provider model runs unknown_cost_runs {tokens} cost_usd") == {
        (MON, "ada", "claude", "sonnet", 4, 0, 3300, 630, 1500, 100, 0.021),
        (MON, "bob", "openai", "gpt", 4, 1, 3300, 550, None, None, 0.037),
        (MON, "cy", "rehearsal", None, 3, 3, None, None, None, None, None),
        (TUE, "ada", "claude", "sonnet", 2, 0, 1500, 150, None, None, 0.007),
        (TUE, "ada", "claude", "sonnet-2", 1, 0, 700, 70, None, None, 0.004),
        (TUE, "bob", "openai", "gpt", 2, 1, 300, 60, None, None, 0.003),
        (TUE, "cy", "rehearsal", None, 1, 1, None, None, None, None, None),
        (WED, "ada", "claude", "sonnet", 1, 0, 900, 90, None, None, 0.009),
        (WED, "bob", "openai", "gpt", 1, 0, 800, 80, None, None, 0.008),
        (WED, "cy", "rehearsal", None, 1, 1, None, None, None, None, None),
    }


def test_dead_letters(golden: Golden) -> None:
    columns = "day message_id trace agent reason failure_class attempts died_at deaths still_dead"
    assert golden.rows("dead_letters", columns) == {
        (MON, "m3", "t3", "cy", "crash again", "transient", 2, moment(MON, "11:00:09.400"), 1, True),
        (TUE, "m17", "t10", "bob", "no key", "permanent", 2, moment(TUE, "15:00:01.100"), 1, False),
    }


def test_busy_hours(golden: Golden) -> None:
    assert golden.rows("busy_hours", "weekday hour agent messages") == {
        *((1, 9, "ada", 1), (1, 10, "bob", 1), (1, 11, "cy", 1)),
        *((1, 12, "ada", 2), (1, 12, "bob", 1), (1, 12, "cy", 1), (1, 23, "ada", 1), (1, 23, "bob", 1)),
        *((2, 0, "ada", 1), (2, 0, "cy", 1), (2, 8, "ada", 1), (2, 8, "bob", 1)),
        *((2, 9, "bob", 1), (2, 9, "cy", 1), (2, 10, "ada", 1), (2, 15, "bob", 1)),
        *((3, 10, "ada", 2), (3, 10, "bob", 1), (3, 11, "cy", 1), (3, 12, "cy", 1)),
    }


def test_slo(golden: Golden) -> None:
    found = golden.rows("slo", "day agent good total ratio", where="target = 'answered within 60 s'")
    assert found == {
        (MON, "ada", 4, 4, 1.0),
        (MON, "bob", 3, 3, 1.0),
        (MON, "cy", 1, 2, 0.5),  # m3 is dead
        (TUE, "ada", 3, 3, 1.0),
        (TUE, "bob", 1, 2, 0.5),  # m17 the day after; m15 has not ended
        (TUE, "cy", 1, 1, 1.0),  # m14 was cancelled
        (WED, "ada", 2, 2, 1.0),
        (WED, "cy", 1, 1, 1.0),  # m22 has not ended
    }
    assert golden.rows("slo", "day agent good total ratio", where="target = 'delivered within 30 s'") == {
        (MON, "ada", 4, 4, 1.0),
        (MON, "bob", 2, 2, 1.0),
        (MON, "cy", 2, 2, 1.0),
        (TUE, "ada", 3, 3, 1.0),
        (TUE, "bob", 2, 3, 0.666667),
        (TUE, "cy", 1, 1, 1.0),
        (WED, "ada", 2, 2, 1.0),
        (WED, "bob", 0, 1, 0.0),
    }


def test_trace_summary(golden: Golden) -> None:
    counts = "trace messages agents hops fan_out runs failed_runs dead"
    assert golden.rows("trace_summary", f"{counts} total_ms critical_path_ms cost_usd unknown_cost_runs status") == {
        ("t1", 1, 1, 0, 1, 1, 0, 0, 2150, 2150, 0.006, 0, "done"),
        ("t2", 1, 1, 0, 1, 2, 1, 0, 15700, 4700, 0.01, 1, "done"),  # 200 + 1000 + 300 + 3000 + 200
        ("t3", 1, 1, 0, 1, 2, 2, 1, 9600, 4600, None, 2, "dead"),  # 1000 + 2000 + 400 + 1000 + 200
        ("t4", 4, 3, 0, 4, 4, 0, 0, 5600, 5600, 0.01, 1, "done"),  # 0.001 + 0.007 + 0.002, r8 unknown
        ("t5", 4, 3, 2, 2, 4, 0, 0, 18000, 18000, 0.037, 1, "done"),  # 0.012 + 0.02 + 0.005, r12 unknown
        ("t6", 2, 2, 0, 2, 2, 0, 0, 3700, 3700, 0.005, 0, "done"),
        ("t7", 1, 1, 0, 1, 0, 0, 0, 5000, None, None, 0, "done"),  # cancelled before anything was done
        ("t8", 1, 1, 0, 1, 1, 0, 0, 50, 50, None, 0, "open"),
        ("t9", 1, 1, 0, 1, 1, 0, 0, 2200, 2200, 0.004, 0, "done"),
        ("t10", 1, 1, 0, 1, 2, 1, 0, 66_600_000, 1_801_100, 0.008, 1, "done"),  # of 18.5 hours
        ("t11", 2, 2, 0, 1, 1, 0, 0, 5400, 5400, 0.009, 0, "done"),
        ("t12", 1, 1, 0, 1, 1, 0, 0, 4600, 4600, None, 0, "done"),
        ("t13", 1, 1, 0, 1, 1, 0, 0, 5700, 4200, None, 1, "done"),  # 3000 + 200 + 1000
        ("t14", 1, 1, 0, 1, 1, 0, 0, None, None, None, 0, "open"),  # nothing that can be has ended
    }
    paths = dict(golden.rows("trace_summary", "trace critical_path"))
    assert paths["t4"] == (
        "waits for bob (200 ms) > bob (4,000 ms) > held: join (4,200 ms) > waits for ada (300 ms) > ada (1,000 ms)"
        " > to matrix (100 ms)"
    )
    assert paths["t5"] == (
        "waits for ada (500 ms) > ada (5,000 ms) > ada → bob (7,000 ms) > waits for bob (2,000 ms) > bob (5,000 ms)"
        " > bob → ada (5,000 ms) > waits for ada (1,000 ms) > ada (4,000 ms) > to console (500 ms)"
    )
    assert paths["t7"] is None


def test_topics(golden: Golden) -> None:
    """ada's words; of the days before, each counts, from her first one on: one before March 3, two before March 4."""
    found = golden.rows("topics_daily", "day term words messages count expected burst", where="agent = 'ada'")
    assert found == {
        (MON, "backup", 1, 2, 3, 0, 3),
        (MON, "backup server", 2, 2, 3, 0, 3),
        (MON, "server", 1, 2, 3, 0, 3),
        (MON, "invoice", 1, 2, 2, 0, 2),  # of m1 and m8; `invoice2` is an id
        (MON, "check", 1, 1, 1, 0, 1),
        (MON, "restart", 1, 1, 1, 0, 1),
        (MON, "summarise", 1, 1, 1, 0, 1),
        (MON, "wrong", 1, 1, 1, 0, 1),
        (TUE, "newsletter", 1, 1, 2, 0, 2),  # a comma parts two words
        (TUE, "prüfen", 1, 1, 2, 0, 2),
        (TUE, "broken", 1, 1, 1, 0, 1),
        (TUE, "größe", 1, 1, 1, 0, 1),
        (TUE, "größe prüfen", 2, 1, 1, 0, 1),
        (TUE, "rechnung", 1, 1, 1, 0, 1),
        (TUE, "rechnung prüfen", 2, 1, 1, 0, 1),
        (TUE, "server broken", 2, 1, 1, 0, 1),
        (TUE, "backup", 1, 1, 1, 3, -1),  # (1 - 3) / sqrt(4)
        (TUE, "backup server", 2, 1, 1, 3, -1),
        (TUE, "server", 1, 1, 1, 3, -1),
        (WED, "invoice backup", 2, 1, 1, 0, 1),
        (WED, "backup", 1, 2, 2, 2, 0),  # (3 + 1) / 2 days
        (WED, "invoice", 1, 1, 1, 1, 0),  # (2 + 0) / 2 days
    }
    less = round(-1 / math.sqrt(3), 4)
    assert golden.rows("topics_daily", "day term messages count expected burst", where="agent = 'bob'") == {
        (MON, "backup", 1, 2, 0, 2),
        (MON, "backup failed", 1, 2, 0, 2),
        (MON, "failed", 1, 2, 0, 2),
        (TUE, "failed backup", 1, 1, 0, 1),
        (TUE, "backup", 1, 1, 2, less),
        (TUE, "failed", 1, 1, 2, less),
    }
    assert golden.rows("topics_daily", "day", where="agent = 'cy'") == set()
