"""The ledger into Spark: our source beside Spark's own JDBC reader and the way through pandas."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing import get_context
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
SHOWN = {"ours": "our source", "pandas": "pandas", "jdbc": "Spark's JDBC"}


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
    plays = [Play(db=db, other="pandas", bulk=False)]
    if DRIVER.exists():
        plays += [Play(db=db, other="jdbc", bulk=bulk) for bulk in (False, True)]
    lines, heard = [], []
    for play in plays:
        # pyspark starts one Java in a process, and how that compiles is said at its start
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            ours, other, company = process.submit(play.run, setting).result()
        lines += [line(ours, beside=other, target=Target(times=3 if play.other == "pandas" else 2)), line(other)]
        heard.append(company)
    return Section(
        title=f"{heads(db).events:,} events into Spark, with Java's quick compiler alone and with both",
        lines=[*lines],
        company=max(heard, key=lambda company: company.share),
        notes=[] if DRIVER.exists() else [f"the JDBC driver is not there ({DRIVER.name}); its lines are left out"],
    )


@dataclass(frozen=True, kw_only=True)
class Play:
    """Our source beside another reader, in a Java of their own."""

    db: Path
    #: of `Readers`
    other: str
    #: with both of Java's compilers
    bulk: bool

    def run(self, setting: Setting) -> tuple[Result, Result, Company]:
        # not in the scratch folder: Java and Python talk through sockets, whose paths must be short
        with TemporaryDirectory(prefix="md-") as folder:
            further = {
                "spark.driver.extraClassPath": str(DRIVER),
                "spark.sql.execution.arrow.pyspark.enabled": "true",
            }
            options = SparkOptions(master=MASTER, memory="2g", folder=Path(folder), bulk=self.bulk, further=further)
            spark = session(options)
            try:
                readers = Readers(spark, self.db)
                contestants = [self._contestant(readers, name) for name in ("ours", self.other)]
                for contestant in contestants:  # the first of each starts workers and compiles
                    contestant.play(Path(folder))
                with company() as heard:
                    own = own_seconds()
                    results = interleave(setting, contestants)
                    everything = sum(sample.cpu for result in results for sample in result.samples)
                    # Spark's Java and its workers are waited for at the end only
                    heard.unwaited = everything - (own_seconds() - own)
            finally:
                end(spark)
        # a session does not go to another process
        ours, other = (replace(result, contestant=replace(result.contestant, play=_played)) for result in results)
        return ours, other, heard

    def _contestant(self, readers: Readers, name: str) -> Contestant:
        compilers = "both" if self.bulk else "quick"
        return Contestant(name=f"{SHOWN[name]}, {compilers}", play=getattr(readers, name))


def _played(_: Path) -> Sample:
    raise AssertionError("it has been played")


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
