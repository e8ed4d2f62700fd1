"""The only place where a Spark session is built.

A process keeps one session: starting it costs seconds, and Spark itself allows only one context.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import secrets
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.domain.errors import BadInput, ExtraMissing, PipelineError, SparkHasNoRoom, SparkNotStarted
from manydesks.pipeline.disk import FULL, disk_refusals, is_full
from manydesks.pipeline.java import find_java, write_launcher
from manydesks.pipeline.master import is_local, is_local_cluster, require_master
from manydesks.pipeline.properties import properties_file
from manydesks.pipeline.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: what the extra `pipeline` brings; asked for by name so that nothing heavy is imported to find out
PACKAGES = ("pyspark", "pandas", "pyarrow", "deltalake")

#: pyspark writes every failed query to stderr through these, with Java's stack trace; who asked gets a sentence instead
QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: where a driver listens whose executors are on this machine
LOOPBACK = "127.0.0.1"

#: the name under which Spark itself has the Python of its workers
PYTHON = "spark.pyspark.python"

#: options that are not for a person to choose: they have a setting of their own, or others would give other tables
FIXED = (
    "spark.app.name",
    "spark.driver.memory",
    "spark.local.dir",
    "spark.master",
    "spark.sql.ansi.enabled",
    "spark.sql.python.filterPushdown.enabled",
    "spark.sql.runSQLOnFiles",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
    "spark.sql.variable.substitute",
    "spark.submit.deployMode",
    "spark.submit.pyFiles",
)

#: those of them with a setting of their own
SETTINGS = {
    "spark.driver.memory": "pipeline.memory",
    "spark.master": "pipeline.master",
    "spark.sql.shuffle.partitions": "pipeline.shuffle_partitions",
}

#: what Spark compiles for a run over all tables does not fit into Java's default room for it; once that is full, Java
#: compiles nothing more. Without memory it is to end: a thread that died of it would be waited for in vain; its last
#: words are for the log. And Arrow would check each value that comes from our own Python workers for lying inside its
#: batch, which takes longer than the value itself
JAVA = (
    "-XX:ReservedCodeCacheSize=240m -XX:+UseParallelGC -XX:+ExitOnOutOfMemoryError -XX:+DisplayVMOutputToStderr"
    " -Darrow.enable_unsafe_memory_access=true"
)
#: start-up is most of a small run: only the quick compiler
JAVA_BRIEF = "-XX:TieredStopAtLevel=1"
#: Spark's code runs for a minute and is long already: putting called methods into it as deeply as Java does by default
#: takes more CPU than it saves, a seventh of all
JAVA_BULK = "-XX:+TieredCompilation -XX:MaxInlineLevel=5 -XX:InlineSmallCode=800 -XX:FreqInlineSize=120"

#: how a Java says that it does not get its memory
NO_ROOM = re.compile(
    rb"insufficient memory for the Java Runtime|Could not reserve enough space|Could not allocate|Invalid maximum heap"
)

#: where pyspark finds a Java that is there already, instead of starting one
LENT = "PYSPARK_GATEWAY_PORT"

#: the longest path of a folder that Spark takes for its sockets, whose own paths have an end as well
SOCKET_FOLDER = 61

#: queries, jobs and stages that Spark remembers once they have ended
KEPT = "100"

#: where the processes have their folders
SCRATCH = "scratch"

#: a log above this size is begun anew at the next start
LOG_BYTES = 5_000_000


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manydesks" / "spark"


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """What may be chosen about a session; the rest is fixed here so that every job runs under the same rules."""

    #: where Spark runs: `local[*]` (all cores of this machine), `local[2]`, `spark://host:7077`, …; the executors of
    #: any but a `local` one get this package from here
    master: str = "local[*]"
    #: the memory of the driver's Java, as Java writes it: `1g`, `800m`
    memory: str = "1g"
    #: partitions after a shuffle; few, because a small machine pays for each one
    shuffle_partitions: int = 2
    #: a private folder for the Java launcher and Spark's scratch files
    folder: Path = field(default_factory=_cache_folder)
    #: where everything goes that Spark and its Java say; None: `spark.log` in the folder
    log: Path | None = None
    #: much is to be done: worth the CPU that Java's second compiler takes before it saves any
    bulk: bool = False
    #: somebody looks on: tasks say each second how far they are, not each ten
    followed: bool = False
    #: further options of Spark; not shown, since some are passwords
    further: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if fixed := sorted(self.further.keys() & set(FIXED)):
            setting = SETTINGS.get(fixed[0])
            instead = f"; the setting {setting} is for that" if setting else ""
            raise BadInput(reason=f"pipeline.spark has '{fixed[0]}', which is not for choosing there{instead}.")
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

    Raises `ExtraMissing`, `JavaMissing`, `PipelineError` if no master answers, or `SparkNotStarted`.
    """
    require_extra()
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from manydesks.pipeline.failure import SPARK_FAILURES
    from manydesks.pipeline.java_names import remember_names

    # without a handler its complaints about a Java that is gone end up on the terminal
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.getLogger().addFilter(_not_of_py4j)
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    if (running := SparkSession.getActiveSession()) is not None:
        return running
    require_master(options.master)
    java = find_java(os.environ)
    with disk_refusals(options.folder):
        options.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if options.log_file.exists() and options.log_file.stat().st_size > LOG_BYTES:
            options.log_file.unlink()
        own = scratch(options.folder.absolute() / SCRATCH)
        java_home = write_launcher(java, own / "java", options.log_file.absolute(), temporary=own)
        quiet = _quiet_scripts(options)
        # read once, while the Java starts; left behind they would steer other programs that this process starts
        started_with = {"BASH_ENV": str(quiet), "JAVA_HOME": str(java_home)}
        started_with |= {**_locale(os.environ), **_surroundings(options)}
        told = options.log_file.stat().st_size if options.log_file.exists() else 0
    builder = SparkSession.builder.appName("manydesks").master(options.master)
    for key, value in _configuration(options, own).items():
        builder = builder.config(key, value)
    try:
        with ExitStack() as stack:
            if hidden := _hidden(options):
                path = stack.enter_context(properties_file(options.folder.absolute(), hidden))
                words = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
                started_with["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(str(path))} {words}"
            stack.enter_context(_environment(started_with))
            spark = builder.getOrCreate()
        if is_local(options.master):
            _write_no_checksums(spark)
        else:
            _ship(spark, options)
    except (*SPARK_FAILURES, OSError) as error:
        if is_full(options.folder):  # then the log could not be written either
            raise PipelineError(reason=f"Spark did not start: {options.folder} cannot be used, {FULL}.") from error
        if _has_no_room(options.log_file, told):
            raise SparkHasNoRoom(memory=options.memory) from error
        raise SparkNotStarted(log=options.log_file) from error
    remember_names(spark.sparkContext._jvm)
    # when the Java dies, this thread's complaint is one more stack trace; the call that was under way raises anyway
    spark.sparkContext._accumulatorServer.handle_error = _say_nothing  # type: ignore[method-assign]
    return spark


def end(spark: SparkSession) -> None:
    """Ends the session and its Java; one that is gone already is fine."""
    from manydesks.pipeline.failure import SPARK_FAILURES

    left: list[tuple[Path, str]] = []
    with suppress(*SPARK_FAILURES):
        context = spark.sparkContext
        if is_local_cluster(context.master or ""):
            left.append((own_folder(spark).parents[1], context.applicationId))
    with suppress(*SPARK_FAILURES):
        spark.stop()
    for folder, application in left:
        from manydesks.pipeline.spark_home import sweep_home

        sweep_home(folder, application)


def own_folder(spark: SparkSession) -> Path:
    """Where this process puts what is only for its own time, and what Spark puts there."""
    return Path(str(spark.conf.get("spark.local.dir")))


def reads_files_here(spark: SparkSession) -> bool:
    """Whether every executor is sure to be on this machine, and so can open this machine's files.

    Those of a `local-cluster` could, but it stands for a real one and is treated as such.
    """
    return is_local(spark.sparkContext.master or "")


def _has_no_room(log: Path, told: int) -> bool:
    """Whether the Java said in what it wrote after the first `told` bytes that it does not get its memory."""
    try:
        with log.open("rb") as file:
            file.seek(told)
            return NO_ROOM.search(file.read(LOG_BYTES)) is not None
    except OSError:
        return False


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """A Java that dies while it is asked makes py4j write its stack trace as if it were the whole program's."""
    return Path(record.pathname).parent.name != "py4j"


def _say_nothing(request: object, client_address: object) -> None:
    """For a server whose client is gone."""


def _quiet_scripts(options: SparkOptions) -> Path:
    """Spark is started by bash scripts, which read this file first: what they say goes to the log as well."""
    path = options.folder / "quiet.sh"
    path.write_text(f"exec 2>>{shlex.quote(str(options.log_file.absolute()))}\n")
    return path.absolute()


def _locale(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Java takes names of files by its locale: with that of C it finds none that is not ASCII."""
    return {"LC_ALL": "C.UTF-8"} if environ.get("LC_ALL") in ("C", "POSIX") else {}


def _surroundings(options: SparkOptions) -> Mapping[str, str]:
    """Variables that Spark takes from its surroundings."""
    if is_local(options.master):
        return {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}
    if is_local_cluster(options.master):
        from manydesks.pipeline.spark_home import write_home

        python = options.further.get(PYTHON, sys.executable)
        home = write_home(options.folder.absolute())
        return {"PYSPARK_PYTHON": python, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK}
    # the path of this interpreter says nothing about another machine
    return {"PYSPARK_PYTHON": options.further.get(PYTHON) or os.environ.get("PYSPARK_PYTHON", "python3")}


def _configuration(options: SparkOptions, own: Path) -> Mapping[str, str]:
    settings = {
        "spark.driver.memory": options.memory,
        "spark.local.dir": str(own),
        "spark.log.level": "WARN",
        # where in our code each part of a query was written: it costs three calls to Java for each part, and what
        # Spark refuses is told in a sentence of our own
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # all that a run over all tables needs, kept for the next one: by default Spark throws most of it away meanwhile
        "spark.sql.codegen.cache.maxEntries": "5000",
        # rows that were handed over with a query would be worked on while it is planned, one by one and each time that
        # the query speaks of them: of a few thousand, longer than all the rest of a round of a watch
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
        # rows are kept for a few queries: how they could be packed takes longer to find out than to keep them
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        # the store keeps milliseconds; where a job makes timestamps of them, they must not depend on the machine
        "spark.sql.session.timeZone": "UTC",
        # `select … from csv.`/a/path`` would read any file
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        # a data source that takes filters raises unless this is on
        "spark.sql.python.filterPushdown.enabled": "true",
        # rows that lie together by their trace also do by trace and span: they are not moved for a join of both
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        # `${env:NAME}` in a query would be replaced by a variable of the environment, where secrets are
        "spark.sql.variable.substitute": "false",
        "spark.sql.warehouse.dir": str(own / "warehouse"),
        # of each query, for a page that nobody sees
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # what Spark remembers of queries that have ended, for the same page and for our bars: of a thousand, its
        # default, it would be some 100 MB by what a few hundred took, and a watch has had so many within minutes
        "spark.sql.ui.retainedExecutions": KEPT,
        "spark.ui.retainedJobs": KEPT,
        "spark.ui.retainedStages": KEPT,
    }
    if options.bulk:
        # Java compiles no method with more code than this, and what Spark writes as one for a part of a query often has
        # more, with so many columns; it then writes many small ones instead: a twelfth less CPU for five million events
        settings["spark.sql.codegen.hugeMethodLimit"] = "8000"
    else:
        # every join, sort and grouping takes at least one, 16 MB by default, however few its rows; and those of joins
        # stay until Java happens to look for what is left behind
        settings["spark.buffer.pageSize"] = "1m"
    if is_local(options.master) or is_local_cluster(options.master):
        settings |= {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.driver.extraJavaOptions": f"{JAVA} {JAVA_BULK if options.bulk else JAVA_BRIEF}",
            # with more files than this, a job would look for them: on the same cores, and it takes longer to start
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
            # other users of this machine reach its ports too, and whoever speaks to Spark unasked can run code in it
            "spark.authenticate": "true",
        }
        if options.followed:
            settings["spark.executor.heartbeatInterval"] = "1s"
    if is_local(options.master) and len(os.fsencode(own)) <= SOCKET_FOLDER and LENT not in os.environ:
        # Java and Python talk through files of ours instead of ports: a question takes 15 ms less, and nobody else
        # can knock. Not in a Java that had other sessions before: it looks for the files where its first one had them
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = str(own)
    return {key: value for key, value in settings.items() if key not in options.further}


def _hidden(options: SparkOptions) -> Mapping[str, str]:
    """Options that no command line shows."""
    # Spark makes up a secret of its own only where it starts no other processes
    own = {"spark.authenticate.secret": secrets.token_urlsafe(32)} if is_local_cluster(options.master) else {}
    return {**own, **options.further}


def _write_no_checksums(spark: SparkSession) -> None:
    """Hadoop would write a file of checksums beside each file of a table, and start a `chmod` for each; the tables'
    logs have no word for such files, and Parquet has checks of its own."""
    assert spark._jvm is not None
    hadoop = spark._jsc.hadoopConfiguration()
    # one for all threads of this Java
    spark._jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop).setWriteChecksum(False)


def _ship(spark: SparkSession, options: SparkOptions) -> None:
    """Executors get the code of this very process, not what another machine may have of it."""
    from manydesks.pipeline.shipping import write_package

    before = list(sys.path)
    spark.sparkContext.addPyFile(str(write_package(options.folder.absolute())))
    sys.path[:] = before  # Spark puts the copy in front of other packages here too


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
