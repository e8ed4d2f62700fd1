"""The only place where a Spark session is built.

A process keeps one session: starting it costs seconds, and Spark itself allows only one context.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.domain.errors import BadInput, ExtraMissing, PipelineError
from manydesks.pipeline.disk import FULL, disk_refusals, is_full
from manydesks.pipeline.java import find_java, write_launcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: what the extra `pipeline` brings; asked for by name so that nothing heavy is imported to find out
PACKAGES = ("pyspark", "pandas", "pyarrow", "deltalake")

#: pyspark writes every failed query to stderr through these, with Java's stack trace; who asked gets a sentence instead
QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: a log above this size is begun anew at the next start
LOG_BYTES = 5_000_000


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manydesks" / "spark"


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """What may be chosen about a session; the rest is fixed here so that every job runs under the same rules."""

    #: where Spark runs: `local[*]` (all cores of this machine), `local[2]`, `spark://host:7077`, …
    master: str = "local[*]"
    #: the memory of the driver's Java, as Java writes it: `1g`, `800m`
    memory: str = "1g"
    #: partitions after a shuffle; few, because a small machine pays for each one
    shuffle_partitions: int = 2
    #: a private folder for the Java launcher and Spark's scratch files
    folder: Path = field(default_factory=_cache_folder)
    #: where everything goes that Spark and its Java say; None: `spark.log` in the folder
    log: Path | None = None

    def __post_init__(self) -> None:
        if self.shuffle_partitions < 1:
            raise BadInput(reason=f"shuffle_partitions is {self.shuffle_partitions}; it must be 1 or more.")

    @property
    def log_file(self) -> Path:
        return self.log or self.folder / "spark.log"


def require_extra() -> None:
    """Raises `ExtraMissing` unless the packages of the extra `pipeline` are installed; imports none of them."""
    if any(importlib.util.find_spec(name) is None for name in PACKAGES):
        raise ExtraMissing(feature="The pipeline", extra="pipeline")


def session(options: SparkOptions) -> SparkSession:
    """Starts the process's Spark session, or returns the one that runs already (whose options then stay as they were).

    Raises `ExtraMissing`, `JavaMissing`, or `PipelineError` if Spark does not start; the log then says why.
    """
    require_extra()
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from manydesks.pipeline.failure import SPARK_FAILURES

    # without a handler its complaints about a Java that is gone end up on the terminal
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    if (running := SparkSession.getActiveSession()) is not None:
        return running
    java = find_java(os.environ)
    with disk_refusals(options.folder):
        options.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if options.log_file.exists() and options.log_file.stat().st_size > LOG_BYTES:
            options.log_file.unlink()
        java_home = write_launcher(java, options.folder.absolute() / "java", options.log_file.absolute())
        quiet = _quiet_scripts(options)
    builder = SparkSession.builder.appName("manydesks").master(options.master)
    for key, value in _configuration(options).items():
        builder = builder.config(key, value)
    # read once, while the Java starts; left behind they would steer other programs that this process starts
    started_with = {
        "BASH_ENV": str(quiet),
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    try:
        with _environment(started_with):
            spark = builder.getOrCreate()
    except (*SPARK_FAILURES, OSError) as error:
        if is_full(options.folder):  # then the log could not be written either
            raise PipelineError(reason=f"Spark did not start: {options.folder} cannot be used, {FULL}.") from error
        raise PipelineError(reason=f"Spark did not start; {options.log_file} says why.") from error
    # when the Java dies, this thread's complaint is one more stack trace; the call that was under way raises anyway
    spark.sparkContext._accumulatorServer.handle_error = _say_nothing  # type: ignore[method-assign]
    return spark


def end(spark: SparkSession) -> None:
    """Ends the session and its Java; one that is gone already is fine."""
    from manydesks.pipeline.failure import SPARK_FAILURES

    with suppress(*SPARK_FAILURES):
        spark.stop()


def is_local(spark: SparkSession) -> bool:
    """Whether every executor is on this machine, and so can open this machine's files."""
    return (spark.sparkContext.master or "").startswith("local")


def _say_nothing(request: object, client_address: object) -> None:
    """For a server whose client is gone."""


def _quiet_scripts(options: SparkOptions) -> Path:
    """Spark is started by bash scripts, which read this file first: what they say goes to the log as well."""
    path = options.folder / "quiet.sh"
    path.write_text(f"exec 2>>{shlex.quote(str(options.log_file.absolute()))}\n")
    return path.absolute()


def _configuration(options: SparkOptions) -> Mapping[str, str]:
    scratch = options.folder / "scratch"
    settings = {
        "spark.driver.memory": options.memory,
        "spark.local.dir": str(scratch),
        "spark.log.level": "WARN",
        "spark.sql.parquet.compression.codec": "zstd",
        # the store keeps milliseconds; where a job makes timestamps of them, they must not depend on the machine
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        # a data source that takes filters raises unless this is on
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if options.master.startswith("local"):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # start-up is most of a small run: only the quick compiler
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
    return settings


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
