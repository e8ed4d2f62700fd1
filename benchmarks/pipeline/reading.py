"""The ledger into Spark: our source beside Spark's own JDBC reader and the way through pandas."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.measure import Company, Contestant, Result, Sample, Setting, company, interleave, own_seconds
from benchmarks.pipeline.homes import MASTER, made_up
from benchmarks.pipeline.observed import Session
from benchmarks.report import Section, Target, line
from manydesks.pipeline.schemas import EVENTS
from manydesks.pipeline.session import SparkOptions, end, session
from manydesks.pipeline.sources.ledger import VIEWS, heads, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_IN_ALL = 5_000_000
#: where Debian's package libxerial-sqlite-jdbc-java puts the driver
DRIVER = Path("/usr/share/java/sqlite-jdbc.jar")
CHUNK = 100_000


class Readers:
    """Each reads the whole ledger, and throws it away inside Spark."""

    def __init__(self, spark: SparkSession, db: Path) -> None:
        self._spark, self._db = spark, db
        self._head = heads(db).events

    def ours(self, _: Path) -> Sample:
        return self._timed(lambda: _drop(read(self._spark, self._db, VIEWS["export_events"], 0, self._head)))

    def jdbc(self, _: Path) -> Sample:
        # without a schema the driver takes 64-bit numbers for 32-bit ones, and says nothing
        types = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in EVENTS.schema)
        reader = (
            self._spark.read.format("jdbc")
            .option("url", f"jdbc:sqlite:{self._db}")
            .option("driver", "org.sqlite.JDBC")
            .option("dbtable", "export_events")
            .option("customSchema", types)
            .option("fetchsize", 20_000)
            .option("partitionColumn", "seq")
            .option("lowerBound", 1)
            .option("upperBound", self._head)
            .option("numPartitions", max(2, self._head // CHUNK))
        )
        return self._timed(lambda: _drop(reader.load()))

    def pandas(self, _: Path) -> Sample:
        import pandas

        def go() -> None:
            names = ", ".join(field.name for field in EVENTS.schema)
            with closing(sqlite3.connect(f"{self._db.as_uri()}?mode=ro", uri=True)) as db:
                for rows in pandas.read_sql_query(f"select {names} from export_events", db, chunksize=CHUNK):
                    # whole numbers with gaps are floats in pandas
                    rows["body"] = rows["body"].astype("Int64")
                    _drop(self._spark.createDataFrame(rows, EVENTS.schema))

        return self._timed(go)

    def _timed(self, work: Callable[[], None]) -> Sample:
        seen = Session(os.getsid(0))
        before, began = seen.cpu, time.perf_counter()
        work()
        wall = time.perf_counter() - began
        seen.close()
        return Sample(operations=self._head, wall=wall, cpu=seen.cpu - before)


def reading(setting: Setting) -> Section:
    db = made_up(setting.scratch, setting.of(EVENTS_IN_ALL)) / "office.db"
    quick, beside_quick = _play(setting, db, ("ours", "pandas", "jdbc"), "quick", bulk=False)
    both, beside_both = _play(setting, db, ("ours", "jdbc"), "both", bulk=True)
    lines = [line(quick["ours"], beside=quick["pandas"], target=Target(times=3)), line(quick["pandas"])]
    for found in (quick, both):
        if "jdbc" in found:
            lines += [line(found["ours"], beside=found["jdbc"], target=Target(times=2)), line(found["jdbc"])]
    notes = [] if DRIVER.exists() else [f"the JDBC driver is not there ({DRIVER.name}); its lines are left out"]
    title = f"{quick['ours'].samples[0].operations:,} events into Spark, by Java's quick compiler alone and by both"
    louder = max(beside_quick, beside_both, key=lambda heard: heard.share)
    return Section(title=title, lines=[*lines], company=louder, notes=notes)


def _play(
    setting: Setting, db: Path, names: Sequence[str], compilers: str, *, bulk: bool
) -> tuple[dict[str, Result], Company]:
    """Who takes part, by name, in a session of their own; and who else was at work."""
    shown = {"ours": "our source (ADBC, Arrow)", "pandas": "pandas, 100,000 rows", "jdbc": "Spark's JDBC reader"}
    with TemporaryDirectory(dir=setting.scratch) as folder:
        options = SparkOptions(
            master=MASTER,
            memory="2g",
            folder=Path(folder),
            bulk=bulk,
            further={
                "spark.driver.extraClassPath": str(DRIVER),
                "spark.sql.execution.arrow.pyspark.enabled": "true",
            },
        )
        spark = session(options)
        try:
            readers = Readers(spark, db)
            playing = {name: getattr(readers, name) for name in names if name != "jdbc" or DRIVER.exists()}
            contestants = [Contestant(name=f"{shown[name]}, {compilers}", play=play) for name, play in playing.items()]
            for contestant in contestants:  # the first of each starts workers and compiles
                contestant.play(Path(folder))
            with company() as heard:
                own = own_seconds()
                results = interleave(setting, contestants)
                everything = sum(sample.cpu for result in results for sample in result.samples)
                # Spark's Java and its workers are waited for at the end only
                heard.unwaited = everything - (own_seconds() - own)
            return dict(zip(playing, results, strict=True)), heard
        finally:
            end(spark)


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
