"""What Spark says when it fails, as one sentence for a person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.damage import damaged
from manydesks.pipeline.disk import FULL
from manydesks.pipeline.interrupt import is_interrupted
from manydesks.pipeline.master import is_local

#: what a call into Spark raises; the last one when its Java is gone
SPARK_FAILURES: Final = (PySparkException, Py4JError, ConnectionError)

#: an error class in brackets, the SQL state, the place in the text and the plan: for a log, not for a person
_NOISE = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+\.?|\s*[;(]\s*line \d+,? pos \d+\)?[;.]?\s*$|;\s*$")

#: how Java's file classes say it, somewhere down the causes; the first line then names only what was under way
_NO_SPACE = re.compile(r"java\.io\.\w+: (?:.*\()?No space left on device")


#: how Java says that something went wrong elsewhere, or with what it was making
_WRAPPED = ("Exception thrown in awaitResult", "Error while instantiating")

#: how Spark says that a file of a table is not what it should be, or not there
_UNREAD = re.compile(r"(?:reading file|Path does not exist:) (?:file:/{0,2})?(/.+?/\w+/\w+/data/.+?\.parquet)")
#: how Spark hands on what one of its Python workers raised: the last line that is not indented says it
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(.+?)(?:\n\s*\n|\n\s+at |\Z)", re.DOTALL)
_RAISED = re.compile(r"^(?:\w+\.)*[A-Z]\w*: ")
#: an advice that nobody can follow: other tables would come of it, so the setting is not for choosing
_ADVICE = re.compile(r" If necessary,? set \"?spark\.sql\.ansi\.enabled\"? to \"?false\"?[^.]*\.")

#: how an executor says that it did not find a file, may not read it, or could not make one
_UNSEEN = (
    re.compile(r"reading file (?:file:/{0,2})?(/.+?)\. +(?:File does not exist|Could not read)"),
    re.compile(r"File (?:file:/{0,2})?(/.+?) does not exist"),
    re.compile(r"FileNotFoundException: (?:file:/{0,2})?(/.+?) \((?:Permission denied|No such file)"),
    re.compile(r"Mkdirs failed to create (?:file:/{0,2})?(/.+?) \(exists=false"),
)


@contextmanager
def in_one_sentence(what: str) -> Iterator[None]:
    """What Spark raises inside becomes a `PipelineError` that begins with `what`, with Spark's own as its cause; or
    `KeyboardInterrupt`, if somebody has asked for the end."""
    try:
        yield
    except SPARK_FAILURES as error:
        if is_interrupted():
            raise KeyboardInterrupt from error
        raise PipelineError(reason=f"{what}: {sentence(error)}") from error


def sentence(error: BaseException) -> str:
    """The first line that says something, without Java's stack trace, ended by a full stop."""
    if _is_gone(error):
        return "Spark's Java has ended, perhaps for want of memory."
    said = str(error)
    java = getattr(error, "java_exception", None)
    if java is not None:
        said = str(java.getMessage() or java.toString())
    if said.startswith(_WRAPPED):
        said = _cause(java or getattr(error, "_origin", None)) or said
    if _NO_SPACE.search(str(getattr(error, "_stackTrace", None) or error)):
        return f"{FULL}."
    if unseen := _unseen(f"{said}\n{getattr(error, '_stackTrace', None) or error}"):
        return unseen
    if unread := _unread(said, f"{getattr(error, '_stackTrace', None) or error}"):
        return unread
    said = _raised_by_a_worker(said) or said
    lines = [_ADVICE.sub("", line).strip() for line in said.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    while (shorter := _NOISE.sub("", first).strip()) != first:
        first = shorter
    return first if first.endswith(("!", "?")) else first.rstrip(".") + "."


def _raised_by_a_worker(said: str) -> str | None:
    """In its own words, without the name of the class."""
    tracebacks = _TRACEBACK.findall(said)
    lines = [line for line in tracebacks[-1].splitlines() if line[:1].strip()] if tracebacks else []
    return _RAISED.sub("", lines[-1]) or lines[-1] if lines else None


def _cause(java: Any) -> str | None:
    """What went wrong below an error that only says what was under way."""
    while java is not None and str(java.getMessage()).startswith(_WRAPPED):
        java = java.getCause()
    return None if java is None else str(java.getMessage() or java.toString())


def _is_gone(error: BaseException) -> bool:
    """Whether there is no Java any more; of one that died while it was asked, py4j only says what was asked."""
    unanswered = type(error) is Py4JError and "Trace:" not in str(error)
    return unanswered or isinstance(error, Py4JNetworkError | ConnectionError)


def _unread(said: str, stack: str) -> str | None:
    """Which table it is of, and what to do."""
    found = _UNREAD.search(said)
    if found is None or "Permission denied" in stack:
        return None
    gone = "does not exist" in said or "FileNotFoundException" in stack
    told = str(damaged(unquote(found[1]), FileNotFoundError() if gone else "it is damaged"))
    return told[0].lower() + told[1:]


def _unseen(text: str) -> str | None:
    """On a cluster, a file that is there for this machine and not for another."""
    context = SparkContext._active_spark_context
    if context is None or is_local(context.master or ""):
        return None
    for pattern in _UNSEEN:
        if found := pattern.search(text):
            path = unquote(found[1])
            return (
                f"an executor could not open {path}: the lake must lie where every machine of the cluster can read and"
                " write it."
            )
    return None
