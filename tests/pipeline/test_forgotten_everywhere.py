"""What a person had the office forget is in no file of the lake once the older versions are vacuumed: not in a table,
not in what was published; and in nothing that is exported. But for reasons of failures, which are part of events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq

from manydesks.domain.insight import FILE
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import BODIES, QUARANTINE, SESSION_MESSAGES, SESSIONS
from manydesks.pipeline.jobs.compact import compact
from manydesks.pipeline.jobs.export import Wanted, export
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.report.write import report
from manydesks.pipeline.schemas import TABLES
from manydesks.pipeline.silver import TRANSCRIPTS
from manydesks.pipeline.standing import standing
from manydesks.testing.office import OfficeProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.pipeline.columns import TableSpec

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

#: a word that nothing else has
SECRET = "zebrafinch"
#: another, which a program writes into the reason of a failure: events never change, and what is made of them has it
QUOTED = "goldcrest"
KEEP_REASONS = {"events", "messages", "runs", "dead_letters"}
#: the tables that have it before it is forgotten
HAVE_IT = {"bodies", "session_messages", "session_steps", "transcripts", "terms_daily", "topics_daily"}

#: whose rows stay, without their texts
COUNTED = (BODIES, *SESSIONS, TRANSCRIPTS)


def quiet(step: str, done: int, total: int) -> None: ...


def texts(lake: Path) -> dict[str, str]:
    """Every file, Parquet unpacked; by its path in the lake."""
    found = {}
    for path in (path for path in lake.rglob("*") if path.is_file()):
        if path.suffix == ".parquet":
            found[path.relative_to(lake).as_posix()] = json.dumps(pq.ParquetFile(path).read().to_pylist(), default=str)
        else:
            found[path.relative_to(lake).as_posix()] = path.read_bytes().decode("latin-1")
    return found


def with_it(lake: Path, word: str = SECRET) -> set[str]:
    return {name for name, text in texts(lake).items() if word in text}


def rows_of(lake: Path, spec: TableSpec) -> list[dict[str, Any]]:
    return [row for path in tables.files(lake, spec) for row in pq.ParquetFile(path).read().to_pylist()]


def said(lake: Path) -> str:
    """All that the lake has of mailboxes, without older versions."""
    return json.dumps([rows_of(lake, spec) for spec in SESSIONS])


def _any_of(spec: TableSpec, names: set[str]) -> bool:
    return any(name.startswith(f"{spec.folder}/") for name in names)


def test_what_was_forgotten_is_in_no_file_after_a_vacuum(home: Path, spark: SparkSession) -> None:
    lake = home / "lake"

    def bring() -> None:
        run(home / "office.db", lake, spark, quiet, patience=60)

    def exported() -> str:
        return json.dumps(list(export(lake, spark, Wanted(), lambda text: text, quiet)))

    office = OfficeProcess(home)
    office.start()
    try:
        sent = office.ask(f'the {SECRET} sings\n!tool nothing {{"about": "{SECRET}"}}\n!say so it does, the {SECRET}')[
            "messages"
        ][0]["messageId"]
        failed = office.ask(f"!fail permanent no {QUOTED} was found")["messages"][0]["messageId"]
        office.ask("the canary stays\n!say what stays")
        bring()
        before = with_it(lake)
        assert {spec.name for spec in TABLES.values() if _any_of(spec, before)} == HAVE_IT
        assert FILE in before
        assert SECRET in exported()
        assert SECRET in report(lake, 92, str)
        assert said(lake).count(SECRET) >= 3
        rows = {spec.name: tables.count(lake, spec) for spec in COUNTED}

        gone = [office.door.ask("forget", id=id)["texts"] for id in (sent, failed)]
        assert standing(lake, home / "office.db").forgotten == sum(gone) > 0
        bring()
        assert standing(lake, home / "office.db").forgotten == 0
        assert SECRET not in exported()
        assert SECRET not in report(lake, 92, str)
        assert with_it(lake), "older versions have it: or else the vacuum below proves nothing"
        assert FILE not in with_it(lake)
        # in what the lake has of mailboxes, both sides are emptied, and the rest stays
        assert SECRET not in said(lake)
        assert "what stays" in said(lake)
        erased = [row for row in rows_of(lake, SESSION_MESSAGES) if row["erased_at"] is not None]
        assert {row["content"] for row in erased} == {""}
        assert {row["side"] for row in erased} == {"in", "out"}
        assert {spec.name: tables.count(lake, spec) for spec in COUNTED} == rows
        versions = {spec.name: tables.version(lake, spec) for spec in (*SESSIONS, QUARANTINE)}
        bring()
        assert {spec.name: tables.version(lake, spec) for spec in (*SESSIONS, QUARANTINE)} == versions
    finally:
        office.stop()

    compact(lake, quiet, keep_hours=0)

    assert with_it(lake) == set()
    quoting = with_it(lake, QUOTED)
    assert {spec.name for spec in TABLES.values() if _any_of(spec, quoting)} == KEEP_REASONS
    assert FILE in quoting
    assert {spec.name: tables.count(lake, spec) for spec in COUNTED} == rows
    assert "canary" in exported()
    run(home / "office.db", lake, spark, quiet, rebuild=True)
    assert with_it(lake) == set()
