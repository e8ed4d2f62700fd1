"""The lake for others: readers that know nothing of Spark see the same rows, older versions can be read, and two runs
at once do not harm each other."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import deltalake
import polars
import pyarrow as pa

from manydesks.pipeline import tables
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.schemas import EVENTS, TABLES
from manydesks.settings.home import Home
from manydesks.testing.history import Shape
from manydesks.testing.simulate import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Grown

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def by_spark(spark: SparkSession, lake: Path, spec: TableSpec) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in tables.read(spark, lake, spec).collect()), key=repr)


def by_delta_rs(path: Path, version: int | None = None) -> list[dict[str, Any]]:
    table = deltalake.DeltaTable(str(path), version=version)
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t")
    return sorted(pa.table(found.read_all()).to_pylist(), key=repr)


def by_polars(path: Path, version: int | None = None) -> list[dict[str, Any]]:
    return sorted(polars.read_delta(str(path), version=version).to_dicts(), key=repr)


def test_delta_rs_and_polars_read_what_spark_reads(
    grown: Grown, spark: SparkSession, subtests: pytest.Subtests
) -> None:
    for spec in tables.present(grown.lake):
        with subtests.test(spec.name):
            expected = by_spark(spark, grown.lake, spec)
            assert by_delta_rs(grown.lake / spec.folder) == expected
            assert by_polars(grown.lake / spec.folder) == expected
    assert {"events", "messages", "agent_daily", "pipeline_runs"} <= {spec.name for spec in tables.present(grown.lake)}
    assert all(name in TABLES for name in ("events", "messages"))


@pytest.mark.parametrize("reader", [by_delta_rs, by_polars])
def test_an_older_version_has_the_older_rows(grown: Grown, reader: Callable[..., list[dict[str, Any]]]) -> None:
    older = reader(grown.lake / EVENTS.folder, grown.version)
    assert sorted(tuple(row.values()) for row in older) == grown.ledger.events()[: grown.first]
    newest = reader(grown.lake / EVENTS.folder)
    assert sorted(tuple(row.values()) for row in newest) == grown.ledger.events()
    assert len(older) < len(newest)


@pytest.mark.deep  # and every time, beside a process that only holds the lake: `test_archive.py`
def test_two_runs_at_once_commit_everything_once(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    simulate(home, Shape(events=60, agents=2, days=1))
    variables = {**os.environ, "MANYDESKS_HOME": str(home.path), "MANYDESKS_PIPELINE__MASTER": "local[2]"}
    command = [sys.executable, "-m", "manydesks", "pipeline", "run"]
    both = [
        subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=600), process.returncode) for process in both]
    assert 0 in [code for _, code in ended]
    for (_, err), code in ended:
        if code:
            assert "works on the lake" in err
            assert err.count("\n") == 1
        else:
            assert err == ""
    with closing(sqlite3.connect(home.office_db)) as db:
        stored = db.execute("select * from export_events order by seq").fetchall()
    assert sorted(tuple(row.values()) for row in by_delta_rs(home.lake / EVENTS.folder)) == stored
    assert tables.covered(home.lake, EVENTS, EVENTS.name) == len(stored)
