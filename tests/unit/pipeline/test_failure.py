from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.pipeline.failure import sentence


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[SOME_CLASS.SUB] A thing broke. SQLSTATE: 42703; line 2 pos 7;\n'Project\n+- x", "A thing broke."),
        (
            "\n[PARSE_ERROR] Error near 'x'. SQLSTATE: 42601 (line 2, pos 0)\n== SQL",
            "Error near 'x'.",
        ),
        (
            "Task failed while writing rows to file:/x.\n\nJVM stacktrace:\n"
            "Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device\n\tat x",
            "the disk is full.",
        ),
        ("java.io.FileNotFoundException: /x/y (No space left on device)", "the disk is full."),
        ("no column 'No space left on device'", "no column 'No space left on device'."),
        ("plain", "plain."),
        (
            "[ARITHMETIC_OVERFLOW] overflow. Use 'try_add' instead. If necessary set"
            ' "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22003',
            "overflow. Use 'try_add' instead.",
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file"
            " file:///a%20b/lake/silver/messages/data/x/day=2026-01-01/part-0.parquet. SQLSTATE: KD001",
            "the file /a b/lake/silver/messages/data/x/day=2026-01-01/part-0.parquet of the table 'messages' cannot be"
            " read (it is damaged): `manydesks pipeline rebuild` makes it anew from what was archived.",
        ),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file"
            " file:///lake/bronze/events/data/x/part-0.parquet. File does not exist. SQLSTATE: KD001",
            "the file /lake/bronze/events/data/x/part-0.parquet of the table 'events' cannot be read (it is not there):"
            " it is the archive itself and cannot be made anew; put the whole lake back from a copy of it.",
        ),
        (
            "\nAn exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "/x/ledger.py", line 1, in read\n    yield rows\nsqlite3.DatabaseError: file is not a database\n',
            "file is not a database.",
        ),
        (
            "Job aborted due to stage failure: PythonException: Traceback (most recent call last):\n"
            '  File "/x/y.py", line 1, in read\nKeyError: 3\n\n'
            "During handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "/x/y.py", line 2, in read\nNothingThere\n\n\tat org.apache.x',
            "NothingThere.",
        ),
        ("really?", "really?"),
        ("", "RuntimeError."),
    ],
)
def test_one_line_for_a_person(said: str, told: str) -> None:
    assert sentence(RuntimeError(said)) == told


def test_a_java_that_dies_while_it_is_asked() -> None:
    from py4j.protocol import Py4JError, Py4JNetworkError

    ended = "Spark's Java has ended, perhaps for want of memory."
    assert sentence(Py4JError("An error occurred while calling o55.read")) == ended
    assert sentence(Py4JNetworkError("Answer from Java side is empty")) == ended
    refused = "An error occurred while calling o55.read. Trace:\npy4j.Py4JException: Method read() does not exist\n"
    assert sentence(Py4JError(refused)) != ended


class Thrown:
    """As py4j gives an exception of Java."""

    def __init__(self, message: str, cause: Thrown | None = None) -> None:
        self._message, self._cause = message, cause

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> Thrown | None:
        return self._cause


def test_what_only_says_what_was_under_way_is_told_by_its_cause() -> None:
    error = RuntimeError("Exception thrown in awaitResult: \n\nJVM stacktrace:\norg.apache.spark.SparkException")
    error._origin = Thrown(  # type: ignore[attr-defined]
        "Exception thrown in awaitResult: ", Thrown("Encountered error while reading file file:///lake/x.parquet.")
    )
    assert sentence(error) == "Encountered error while reading file file:///lake/x.parquet."
    error._origin = Thrown("Exception thrown in awaitResult: ")  # type: ignore[attr-defined]
    assert sentence(error) == "Exception thrown in awaitResult:."
    error._origin = Thrown(  # type: ignore[attr-defined]
        "Error while instantiating 'org.apache.spark.sql.internal.SessionStateBuilder':",
        Thrown("[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'maybe' in the config \"x\" is invalid. SQLSTATE: 22022"),
    )
    unmade = RuntimeError("Error while instantiating 'org.apache.spark.sql.internal.SessionStateBuilder':")
    unmade._origin = error._origin  # type: ignore[attr-defined]
    assert sentence(unmade) == "The value 'maybe' in the config \"x\" is invalid."
