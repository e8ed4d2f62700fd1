"""When a run has much to do, by the store and the tables' logs: no Spark is started here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow as pa
import pyarrow.parquet as pq

from manydesks.domain.clock import SystemClock
from manydesks.pipeline import much, tables
from manydesks.pipeline.bronze import BODIES, EVENTS
from manydesks.pipeline.lock import hold
from manydesks.pipeline.much import is_much
from manydesks.pipeline.sources.ledger import VIEWS, Window, read_view

CLOCK = SystemClock()


def take(lake: Path, db: Path, spec: Any, upto: int) -> None:
    """The rows go into bronze, read as the archive reads them."""
    view = VIEWS[f"export_{spec.name}"]

    def write(folder: Path) -> None:
        batches = list(read_view(db, view, Window(1, upto), adbc=False))
        pq.write_table(pa.Table.from_batches(batches), folder / "part-0.parquet", compression="none")

    with hold(lake) as held:
        tables.ensure(held, spec)
        mark = tables.Mark(app=spec.name, version=upto)
        tables.append_files_once(held, spec, write, mark, CLOCK, lambda written: None)


def test_long_texts_are_much_and_so_are_many_events(ledger: Any, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.add(9)
    assert not is_much(lake, ledger.path, anew=False)
    ledger.execute("update bodies set text = ? where id = 2", "long " * (much.MANY_LETTERS // 5))
    assert is_much(lake, ledger.path, anew=False)

    # what the lake has is work for a rebuild only
    take(lake, ledger.path, BODIES, 3)
    take(lake, ledger.path, EVENTS, 9)
    assert not is_much(lake, ledger.path, anew=False)
    assert is_much(lake, ledger.path, anew=True)

    monkeypatch.setattr(much, "MANY_EVENTS", 5)
    assert not is_much(lake, ledger.path, anew=False)
    ledger.add(6)
    assert is_much(lake, ledger.path, anew=False)
