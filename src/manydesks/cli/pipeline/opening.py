"""What the commands of the pipeline open: settings, the lake, the store, Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.cli.invocation import Invocation
from manydesks.cli.pipeline.master import chosen_master
from manydesks.cli.pipeline.progress import Bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.pipeline.place import Place
    from manydesks.settings.home import Home
    from manydesks.settings.model import PipelineSettings


def open_settings(invocation: Invocation) -> PipelineSettings:
    """The settings, once it is sure that the pipeline's packages are there."""
    from manydesks.pipeline.session import require_extra
    from manydesks.settings.load import load_settings

    require_extra()
    settings = load_settings(invocation.home, invocation.environ).pipeline
    master = chosen_master()
    return settings if master is None else settings.model_copy(update={"master": master})


def open_lake(invocation: Invocation, settings: PipelineSettings) -> Place:
    """Where the lake is, once it is sure that one can be there."""
    from manydesks.pipeline.place import check_place, place_of

    lake = place_of(settings.lake, invocation.home.lake)
    check_place(lake)
    if isinstance(lake, Path):
        _check_apart(invocation.home, lake)
    return lake


def _check_apart(home: Home, lake: Path) -> None:
    """Raises `PipelineError` for a lake among what is there for something else: sessions, logs, an agent's files."""
    from manydesks.domain.errors import PipelineError

    place = lake.resolve()
    if place.is_relative_to(home.lake.resolve()):
        return
    if place == home.path or home.keeps(place) or place.is_relative_to(home.workspaces.resolve()):
        raise PipelineError(
            reason=f"the lake {lake} is among the office's own files; name a folder of its own in pipeline.lake."
        )


def require_home(invocation: Invocation) -> None:
    """For commands that show an empty lake as such: no home at all is a wrong path, not an office without history."""
    from manydesks.domain.errors import HomeError

    home = invocation.home.path
    if not home.is_dir():
        raise HomeError(home=str(home), reason="there is no such folder; `manydesks up` makes it.")


def open_store(invocation: Invocation) -> Path:
    """Where the store is, once it is sure that this version may read it."""
    from manydesks.pipeline.sources.ledger import require_store

    db = invocation.home.office_db
    require_store(db)
    _ = invocation.reader  # it refuses the store of a newer or an older version
    # not kept: the pipeline opens the store with another SQLite, and closing there frees the locks held here
    invocation.close()
    return db


@contextmanager
def open_spark(
    invocation: Invocation, settings: PipelineSettings, bar: Bar, *, bulk: bool = False, followed: bool = False
) -> Iterator[SparkSession]:
    """A session of Spark as the settings want it, ended with the block. `bulk`: much is to be done.
    `followed`: somebody looks on.

    Raises `PipelineError` if it cannot read where the lake lies.
    """
    from manydesks.pipeline.executors import executors_required
    from manydesks.pipeline.interrupt import interruptible
    from manydesks.pipeline.place import check_spark
    from manydesks.pipeline.session import SparkOptions, end, session

    home = invocation.home
    home.prepare()
    bar.say("starting Spark")
    options = SparkOptions(
        master=settings.master,
        memory=settings.memory,
        shuffle_partitions=settings.shuffle_partitions,
        bulk=bulk,
        followed=followed,
        folder=home.run / "spark",
        log=home.logs / "spark.log",
        further=_further(invocation, settings),
    )
    spark = session(options)
    try:
        with interruptible(spark.sparkContext.cancelAllJobs), executors_required(spark, bar.say):
            check_spark(spark, open_lake(invocation, settings))
            yield spark
    finally:
        end(spark)


def _further(invocation: Invocation, settings: PipelineSettings) -> dict[str, str]:
    """The further options, each `secret:NAME` as the secret it stands for."""
    from manydesks.domain.errors import SettingsError
    from manydesks.settings.model import SECRET_MARK
    from manydesks.settings.secrets import load_secrets

    if not any(value.startswith(SECRET_MARK) for value in settings.spark.values()):
        return settings.spark
    secrets = load_secrets(invocation.home, invocation.environ)
    found = dict(settings.spark)
    for option, value in settings.spark.items():
        if not value.startswith(SECRET_MARK):
            continue
        name = value.removeprefix(SECRET_MARK)
        if name not in secrets:
            raise SettingsError(
                reason=f"pipeline.spark takes '{option}' from the secret '{name[:60]}', which is not there; "
                "`manydesks secret set` keeps it."
            )
        found[option] = secrets[name]
    return found
