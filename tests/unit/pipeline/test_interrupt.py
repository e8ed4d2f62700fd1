"""Ctrl-C is Ctrl-C, whatever Spark makes of it."""

from __future__ import annotations

import os
import signal
import threading

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from pyspark.errors import PySparkException

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.interrupt import interruptible, is_interrupted


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(30)


def test_what_is_under_way_is_cancelled() -> None:
    before = signal.getsignal(signal.SIGINT)
    cancelled: list[bool] = []
    with pytest.raises(KeyboardInterrupt), interruptible(lambda: cancelled.append(is_interrupted())):
        interrupt()
    assert cancelled == [True]
    assert signal.getsignal(signal.SIGINT) is before
    assert not is_interrupted()


def test_a_spark_that_is_gone_changes_nothing_about_it() -> None:
    def cancel() -> None:
        raise BrokenPipeError

    with pytest.raises(KeyboardInterrupt), interruptible(cancel):
        interrupt()


def test_what_fails_for_it_is_no_failure() -> None:
    """It may be heard of while the jobs are being cancelled."""
    met: list[BaseException] = []

    def table(said: str) -> None:
        with in_one_sentence("a table"):
            raise PySparkException(said)

    def cancel() -> None:
        try:
            table("Job 0 cancelled as part of cancellation of all jobs")
        except BaseException as error:
            met.append(error)
            raise

    with pytest.raises(KeyboardInterrupt), interruptible(cancel):
        interrupt()
    assert [type(error) for error in met] == [KeyboardInterrupt]
    with pytest.raises(PipelineError, match="Job 0 failed"):
        table("Job 0 failed")
