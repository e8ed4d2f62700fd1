"""The corners of single transforms, on frames of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.pipeline.gold import SHARES
from manydesks.pipeline.silver import HANDOFFS, MESSAGES, RESPONSES, RUNS, SPANS, TRACES
from manydesks.pipeline.transforms.gold import agents, costs, traces
from manydesks.pipeline.transforms.gold import percentiles as of
from manydesks.pipeline.transforms.gold.topics import MOST, terms_of_silver, topics_of_terms
from manydesks.pipeline.transforms.traces import day_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from manydesks.pipeline.columns import TableSpec

pytestmark = pytest.mark.spark

TEXTS = {
    "Don't e-mail kim_77 or a/b; see https://example.org/path?x=1": {"mail": 1, "see": 1},
    "see the file report.txt, report": {"see": 1, "file": 1, "file report": 1, "report": 2, "txt": 1},
    "Ärger Ärger\nÄrger": {"ärger": 3, "ärger ärger": 1},
    "naïve 日本語 naïve": {"naïve": 2, "日本語": 1, "naïve 日本語": 1, "日本語 naïve": 1},
    "ab " + "x" * 41: {},
    "…!?": {},
    # looked at once, not once from each of its letters
    "y" * 200_000 + "1 done tea": {"tea": 1},
    "y'y." * 100_000 + " tea": {"tea": 1},
    "rock'n'roll — “tea” «tea», tea… tea|tea\ttea": {"tea": 6},
    "京都府。 大阪府، tea": {"京都府": 1, "大阪府": 1, "tea": 1},
    # an accent that is a letter's own sign is part of the word, also before an apostrophe
    "cafe\u0301 tea, cafe\u0301's tea": {"cafe\u0301": 1, "tea": 2, "cafe\u0301 tea": 1},
}


def test_terms(spark: SparkSession) -> None:
    rows = [("2026-01-01", number, "t", 0, f"a{number}", "user", None, text) for number, text in enumerate(TEXTS)]
    rows.append(("2026-01-01", 90, "t", 0, "erased", "user", None, None))
    rows.append(("2026-01-01", 91, "t", 0, "answers", "assistant", "message", "not counted"))
    rows.append(("2026-01-01", 92, "t", 0, "office", "system", "notice", "not counted"))
    rows.append(("2026-01-01", 93, "t", 0, "waited", "user", "told", "not counted"))
    schema = "day string, seq bigint, trace string, at bigint, agent string, role string, operation string, text string"
    said = spark.createDataFrame(rows, schema)
    found = terms_of_silver(said).collect()
    # long ones are worked on side by side, which changes nothing but the order
    apart = terms_of_silver(said, 3)
    assert apart.rdd.getNumPartitions() == 3
    assert sorted(apart.collect()) == sorted(found)
    counted: dict[str, dict[str, int]] = {}
    for row in found:
        counted.setdefault(row["agent"], {})[row["term"]] = row["count"]
        assert (row["day"], row["messages"], row["words"]) == ("1970-01-01", 1, row["term"].count(" ") + 1)
    assert counted == {f"a{number}": wanted for number, wanted in enumerate(TEXTS.values()) if wanted}


def test_the_fifty_most_unusual_stay(spark: SparkSession) -> None:
    rows = [("2026-01-30", "ada", f"w{number:02}", 1, 1, 1) for number in range(60)]
    rows += [("2026-01-29", "ada", "w00", 1, 1, 28), ("2026-01-01", "ada", "w01", 1, 1, 9)]
    terms = spark.createDataFrame(
        rows, "day string, agent string, term string, words bigint, messages bigint, count bigint"
    )
    began = spark.createDataFrame([("ada", "2025-06-01")], "agent string, first_day string")
    found = topics_of_terms(terms, began).where("day = '2026-01-30'").collect()
    # w00 was said 28 times in 28 days, w01 on the 29th day before: that is forgotten; ties go by the alphabet
    assert sorted(row["term"] for row in found) == [f"w{number:02}" for number in range(1, MOST + 1)]
    [usual] = topics_of_terms(terms.where("term = 'w00' and day = '2026-01-30' or count = 28"), began).where(
        "day = '2026-01-30'"
    ).collect()  # fmt: skip
    assert (usual["expected"], usual["burst"]) == (1.0, 0.0)


def test_percentiles_of_many_values_have_the_stated_error(spark: SparkSession) -> None:
    rows = [("small", value) for value in range(1, 1002)] + [("small", None)]
    rows += [("large", 10_007 + value * 37) for value in range(of.EXACT + 1)]
    frame = spark.createDataFrame(rows, "agent string, ms bigint").repartition(3)
    found = {row["agent"]: row for row in of.percentiles(frame, ["agent"], "ms", "run").collect()}
    small = found["small"]
    assert (small["run_p50_ms"], small["run_p95_ms"], small["run_p99_ms"]) == (501.0, 951.0, 991.0)
    for share in SHARES:
        exact = 10_007 + share / 100 * of.EXACT * 37
        assert found["large"][f"run_p{share}_ms"] == pytest.approx(exact, rel=0.0005)
        assert found["large"][f"run_p{share}_ms"] != exact


def test_a_path_through_what_goes_on_and_a_run_whose_span_cannot_be(spark: SparkSession) -> None:
    def rows(spec: TableSpec, *given: dict[str, Any]) -> DataFrame:
        blank = {"day": "2026-01-01", "trace": "t"}
        return spark.createDataFrame([blank | one for one in given], spec.schema)

    handed = {"span_id": "handoff:m", "kind": "handoff", "name": "a → b", "run": "r0", "start_at": 10, "start_seq": 1}
    waited = {"span_id": "queue:m:r1", "kind": "queue", "name": "waits for b", "run": "r1", "start_seq": 2}
    times = {"start_at": 10, "end_at": 1510, "duration_ms": 1500}
    spans = rows(SPANS, handed | {"on_critical_path": True}, waited | times | {"on_critical_path": True})
    arrived = rows(TRACES, {"first_at": 0, "last_at": 9, "first_seq": 1, "last_seq": 2, "events": 2})
    [found] = traces.of_silver(arrived, rows(MESSAGES), rows(RUNS), spans).collect()
    assert found["critical_path"] == "a → b (not ended) > waits for b (1,500 ms)"
    assert found["runs"] == 1
    # a clock that was set back and forth: what lies before the arrival is no part of the trace's time
    later = rows(TRACES, {"first_at": 1500, "last_at": 1510, "first_seq": 1, "last_seq": 2, "events": 2})
    [found] = traces.of_silver(later, rows(MESSAGES), rows(RUNS), spans).collect()
    assert (found["total_ms"], found["critical_path_ms"]) == (10, 10)
    never = rows(TRACES, {"first_at": 1600, "last_at": 1600, "first_seq": 1, "last_seq": 2, "events": 2})
    [found] = traces.of_silver(never, rows(MESSAGES), rows(RUNS), spans).collect()
    assert (found["total_ms"], found["critical_path_ms"]) == (None, 0)


def test_a_number_that_is_too_large_stops_no_table(spark: SparkSession) -> None:
    """Nor does a moment that no clock says."""
    run = {"day": "2026-01-01", "trace": "t", "agent": "ada", "outcome": "completed", "started_at": 0}
    dear = {"cost_microusd": 2**62, "input_tokens": 2**62, "output_tokens": 1}
    runs = spark.createDataFrame([{**run, **dear, "run": f"r{number}"} for number in range(3)], RUNS.schema)
    [cost] = costs.of_silver(runs).collect()
    dollars = 3 * 2**62 / 1_000_000
    assert (cost["runs"], cost["cost_usd"], cost["input_tokens"], cost["output_tokens"]) == (3, dollars, None, 3)
    nothing = [spark.createDataFrame([], spec.schema) for spec in (MESSAGES, RESPONSES, HANDOFFS)]
    [day] = agents.of_silver(nothing[0], runs, *nothing[1:]).collect()
    assert (day["runs"], day["cost_usd"], day["input_tokens"], day["output_tokens"]) == (3, dollars, None, 3)
    odd = [(2**62,), (-(2**62),), (0,), (None,)]
    days = spark.createDataFrame(odd, "at bigint").select(day_of("at")).collect()
    assert [row[0] for row in days][2:] == ["1970-01-01", None]
    assert all(row[0] for row in days[:2])
