"""A cluster that has no executor for us: Spark waits for one without an end, and says so in its log only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from manydesks.pipeline.failure import SPARK_FAILURES
from manydesks.pipeline.master import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: a job that had none for so long is given up; a busy cluster, or one that has to start machines first, takes minutes
PATIENCE_SECONDS = 300
#: after these, whoever looks on is told what is waited for
TOLD_SECONDS = 10
#: how often it is asked
LOOK_SECONDS = 2.0


@contextmanager
def executors_required(spark: SparkSession, told: Callable[[str], None]) -> Iterator[None]:
    """Inside the block a job that has no executor for long fails, with the reason in its error. `told`: takes in a few
    words what is waited for; called from another thread."""
    context = spark.sparkContext
    if is_local(context.master or ""):
        yield
        return
    over = threading.Event()
    looking = threading.Thread(target=_look, args=(context, told, over), name="pipeline-executors", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        # not for ever: the command must end also if no answer comes
        looking.join(LOOK_SECONDS)


def _look(context: SparkContext, told: Callable[[str], None], over: threading.Event) -> None:
    lacking = 0.0
    try:
        while not over.wait(LOOK_SECONDS):
            waiting = _waiting(context)
            lacking = lacking + LOOK_SECONDS if waiting else 0.0
            if waiting and lacking >= TOLD_SECONDS:
                told("waiting for an executor")
            if waiting and lacking >= PATIENCE_SECONDS:
                reason = (
                    f"since {context.master} had no executor for it in {PATIENCE_SECONDS} seconds: its workers are"
                    " down, or have less memory or fewer cores free than it asks for"
                )
                for job in waiting:
                    context._jsc.sc().cancelJob(job, reason)
    except SPARK_FAILURES:
        return  # a Java that is gone: the command hears of it by itself


def _waiting(context: SparkContext) -> list[int]:
    """Jobs that nobody works on."""
    active = list(context.statusTracker().getActiveJobsIds())
    # the driver counts as one
    executors = len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
    return active if executors < 1 else []
