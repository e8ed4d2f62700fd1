"""Transcripts for other programs: which turns, in which order, and what must not be among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.cli.pipeline.export import OUTCOMES
from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import PipelineError
from manydesks.pipeline import tables
from manydesks.pipeline.jobs import export as exporting
from manydesks.pipeline.jobs.export import Wanted, export, heard
from manydesks.pipeline.lock import hold
from manydesks.pipeline.query import query_rows, query_to_parquet
from manydesks.pipeline.silver import MESSAGES, TRANSCRIPTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FIRST, SECOND = "2026-01-01", "2026-01-02"

#: day, trace, agent, seq, role, text, operation, erased
SAID: list[tuple[Any, ...]] = [
    (FIRST, "t1", "ada", 5, "assistant", "hello sk-abcdefgh1234", "message", False),
    (FIRST, "t1", "ada", 1, "user", "hi", None, False),
    (FIRST, "t1", "bob", 3, "user", "help her", None, False),
    (FIRST, "t1", "ada", 7, "assistant", "👍", "reaction", False),
    (FIRST, "t2", "ada", 9, "user", None, None, True),
    (FIRST, "t3", "bob", 2, "user", None, None, True),
    (FIRST, "t3", "bob", 6, "assistant", "that is gone", "message", False),
    (SECOND, "t4", "ada", 20, "user", "again", None, False),
    (SECOND, "t4", "ada", 21, "system", "you are over budget", "notice", False),
    (SECOND, "t5", None, 22, "user", "to nobody", None, False),
]
#: day, message, trace, agent, status
STORED = [
    (FIRST, "m1", "t1", "ada", "completed"),
    (FIRST, "m2", "t1", "bob", "completed"),
    (FIRST, "m3", "t1", "bob", "dead"),
    (FIRST, "m4", "t3", "bob", "cancelled"),
    (SECOND, "m5", "t4", "ada", "completed"),
    (SECOND, "m6", "t4", "ada", "held"),
    (SECOND, "m7", "t4", "ada", "dead"),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    folder = tmp_path_factory.mktemp("export") / "lake"
    said = [
        {"day": day, "trace": trace, "agent": agent, "seq": seq, "at": seq * 10, "role": role, "text": text,
         "operation": operation, "erased": erased}
        for day, trace, agent, seq, role, text, operation, erased in SAID
    ]  # fmt: skip
    names = ("day", "message_id", "trace", "agent", "status")
    stored = [dict(zip(names, row, strict=True)) for row in STORED]
    with hold(folder) as held:
        for spec, rows in ((TRANSCRIPTS, said), (MESSAGES, stored)):
            tables.ensure(held, spec)
            whole = [{column.name: row.get(column.name) for column in spec.columns} for row in rows]
            frame = spark.createDataFrame(whole, spec.schema)
            mark = tables.Mark(app=spec.name, version=30)
            tables.replace_days(held, spec, frame, None, mark, SystemClock(), made_of=len(whole))
    return folder


def lines(lake: Path, spark: SparkSession, wanted: Wanted | None = None) -> list[dict[str, Any]]:
    def redact(text: str) -> str:
        return text.replace("sk-abcdefgh1234", "***")

    return list(export(lake, spark, wanted or Wanted(), redact, lambda *_: None))


def test_a_line_is_what_one_agent_heard_and_said_in_one_trace(lake: Path, spark: SparkSession) -> None:
    found = lines(lake, spark)
    assert found[0] == {
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello ***"}],
        "trace": "t1",
        "agent": "ada",
        "day": FIRST,
        "outcome": "completed",
        "at": 10,
        "erased": 0,
    }
    told = [(line["trace"], line["agent"], line["outcome"], line["erased"], len(line["messages"])) for line in found]
    # by the first turn, days in order; what was erased is counted, and a conversation of nothing else is left out
    assert told == [
        ("t1", "ada", "completed", 0, 2),
        ("t3", "bob", "cancelled", 1, 1),
        ("t1", "bob", "dead", 0, 1),
        ("t4", "ada", "open", 0, 2),
    ]
    assert "sk-abcdefgh1234" not in json.dumps(found)
    # of the first turn that is there
    assert [line["at"] for line in found] == [10, 60, 30, 200]


def test_every_outcome_can_be_chosen(lake: Path, spark: SparkSession) -> None:
    assert {line["outcome"] for line in lines(lake, spark)} == set(OUTCOMES)


def test_filters(lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "ROUND_BYTES", 1)  # each day on its own
    for wanted, traces in (
        (Wanted(agents=["bob", "cy"]), ["t3", "t1"]),
        (Wanted(since=SECOND), ["t4"]),
        (Wanted(until=FIRST, outcome="dead"), ["t1"]),
        (Wanted(outcome="cancelled", agents=["ada"]), []),
        (Wanted(outcome="open"), ["t4"]),
    ):
        assert [line["trace"] for line in lines(lake, spark, wanted)] == traces


def test_with_whom_anything_was_spoken(lake: Path, spark: SparkSession, tmp_path: Path) -> None:
    assert heard(lake, spark, ["ada", "cy"]) == {"ada"}
    assert heard(lake, spark, []) == heard(tmp_path / "nothing", spark, ["ada"]) == set()


def test_a_large_answer_goes_to_a_file_or_comes_row_by_row(lake: Path, spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    sql = "select seq, text, seq * 1.5 as half from transcripts order by seq desc"
    file = tmp_path / "answer.parquet"
    assert query_to_parquet(lake, sql, spark, file, tmp_path / "scratch") == len(SAID)
    found = pq.read_table(file)
    assert found.column_names == ["seq", "text", "half"]
    assert found.column("seq").to_pylist() == sorted((row[3] for row in SAID), reverse=True)
    columns, rows = query_rows(lake, sql, spark)
    assert (columns, next(rows)[0]) == (("seq", "text", "half"), 22)
    assert query_to_parquet(lake, "select seq from transcripts where 1 = 0", spark, file, tmp_path / "scratch") == 0
    assert pq.read_table(file).column_names == ["seq"]
    with pytest.raises(PipelineError, match="the name 'seq' twice"):
        query_to_parquet(lake, "select seq, seq from transcripts", spark, file, tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()
