"""Expectations: what must hold of rows before they are committed, and of the lake against the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from manydesks.domain.errors import LakeRefused, PipelineError
from manydesks.pipeline.damage import reading
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.lookup import find
from manydesks.pipeline.place import Place, readable
from manydesks.pipeline.schemas import BODIES, EVENTS
from manydesks.pipeline.session import reads_files_here
from manydesks.pipeline.sources.ledger import VIEWS, connect, heads, oldest, windows
from manydesks.pipeline.sources.ledger import read as read_ledger
from manydesks.pipeline.sources.parquet import load_view
from manydesks.pipeline.tables import Range, covered, exists, read, snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: above every key of the store
MOST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """How the events of the lake and of the store agree, over the range of `seq` that both should hold."""

    #: rows of the lake in the range
    lake_rows: int
    #: rows of the store in the range
    store_rows: int
    #: rows that the lake has and the store has not, a surplus copy included
    only_lake: int
    #: rows that the store has and the lake has not
    only_store: int

    @property
    def agrees(self) -> bool:
        return not self.only_lake and not self.only_store


def check_no_gap(written: Sequence[Place], after: int, upto: int) -> None:
    """Raises `PipelineError` unless the files hold every `seq` of `after < seq <= upto` exactly once.

    Looks at what was really written, not at what was asked for. Each file ascends by one, as the source reads.
    """
    parts = [pq.ParquetFile(readable(path)).read(columns=["seq"]).column("seq").combine_chunks() for path in written]
    expected = after + 1
    for seqs in sorted((part for part in parts if len(part)), key=lambda part: part[0].as_py()):
        _expect(expected, seqs[0].as_py())
        # the first step has nothing before it and is null
        odd = pc.index(pc.not_equal(pc.pairwise_diff(seqs), 1), True).as_py()
        if odd >= 0:
            _expect(seqs[odd - 1].as_py() + 1, seqs[odd].as_py())
        expected = seqs[-1].as_py() + 1
    if expected > upto + 1:
        raise PipelineError(reason=f"event {expected - 1} is above {upto}, where this run ends. Nothing was archived.")
    _expect(expected, upto + 1)


def other_ledger(lake: Place, db: Path, reached: int, head: int) -> str | None:
    """Why the store is not the one that the lake was archived from; None: it is, as far as one event tells.

    A store that was put back from a backup counts its events on from an older one: archiving it would skip as many
    events as the lake is ahead, or mix two histories. An emptied store (all events pruned) is fine.
    """
    if reached == 0 or head == 0:
        return None
    if head < reached:
        return (
            f"the lake {lake} reaches event {reached}, but the ledger ends at {head}: the store was put back or"
            " belongs to another office. Name another place in the setting pipeline.lake; this lake stays as it is."
        )
    stored = _stored_event(db, reached)
    # a file may be older than some of the columns
    archived = [{**(stored or {}), **row} for row in find(lake, EVENTS, "seq", reached)]
    if stored is not None and [stored] != archived:
        return (
            f"event {reached} is not the same in the lake {lake} and in the store: the store was put back or"
            " belongs to another office. Name another place in the setting pipeline.lake; this lake stays as it is."
        )
    return None


def lost_events(lake: Place, reached: int, first: int, *, incomplete: bool = False) -> str | None:
    """Why the lake cannot go on with a store whose oldest event is `first`; None: it can.

    `incomplete`: a lake without events may begin with that one.
    """
    if first <= reached + 1 or (incomplete and not reached):
        return None
    lost = f"{_missing(reached + 1, first)}: the store no longer has what is older than event {first}, and the lake"
    if reached:
        return (
            f"{lost} {lake} ends with event {reached}. Put a copy of the lake in its place that reaches further; if"
            " there is none, name another place in the setting pipeline.lake and begin there with `manydesks pipeline"
            " run --begin-incomplete`: this lake stays as it is."
        )
    return (
        f"{lost} {lake} has no events. Put a copy of the lake in its place, which keeps everything; if there is none,"
        f" `manydesks pipeline run --begin-incomplete` begins with event {first}, and what was before stays lost."
    )


def lacks_texts(lake: Place) -> bool:
    """Whether events of the lake name texts beyond those that it has, by the tables' logs: texts are archived first."""
    return bool(snapshot(lake, EVENTS, _beyond(covered(lake, BODIES, BODIES.name)))) if exists(lake, EVENTS) else False


def lost_texts(lake: Place, db: Path, first: int) -> str | None:
    """Why the lake cannot go on without texts that its own events name; None: it has them, or the store still has.

    A text stays in the store while an event there names it, so it is those of events below `first`, the oldest that
    the store has or will have, that only the lake may have.
    """
    has = covered(lake, BODIES, BODIES.name)
    suspects = snapshot(lake, EVENTS, Range(column="seq", least=0, most=first - 1), _beyond(has))
    named = {id for file in suspects for id in _named(file.path, first, has)}
    if not named or not (lost := named - _stored_texts(db, has)):
        return None
    return (
        f"the lake lacks texts that its events name ({len(lost):,} of them): its table {lake / BODIES.folder} ends with"
        f" text {has}, and the store has let go of them. Put a copy of that folder in its place; if there is none,"
        " `manydesks pipeline run --begin-incomplete` goes on without them, and they stay lost."
    )


def _beyond(text: int) -> Range:
    return Range(column="body", least=text + 1, most=MOST)


def why_refused(lake: Place, db: Path, *, incomplete: bool = False) -> str | None:
    """Why this lake cannot take what the store has; None: it can. Raises as `heads` does; needs no lock."""
    # in this order: a run beside it archives first, and then the store lets go, and both only count up
    first = oldest(db)
    reached = covered(lake, EVENTS, EVENTS.name)
    head = heads(db).events
    why = other_ledger(lake, db, reached, head) or lost_events(lake, reached, first, incomplete=incomplete)
    if why or incomplete or not reached:
        return why
    return lost_texts(lake, db, first if head else reached + 1)


def check_ledger(lake: Place, db: Path, *, incomplete: bool = False) -> None:
    """Raises `LakeRefused` if this lake cannot take what the store has."""
    if (why := why_refused(lake, db, incomplete=incomplete)) is not None:
        raise LakeRefused(reason=why)


def reconcile(lake: DataFrame, store: DataFrame) -> Reconciliation:
    """Compares the rows of both, duplicates counted; the caller cuts both to the same range."""
    with in_one_sentence("Spark could not compare the lake and the store"):
        return Reconciliation(
            lake_rows=lake.count(),
            store_rows=store.count(),
            only_lake=lake.exceptAll(store).count(),
            only_store=store.exceptAll(lake).count(),
        )


def reconcile_events(spark: SparkSession, lake: Place, db: Path, first: int, reached: int) -> Reconciliation:
    """Compares the events from `first` on: those of the lake with those of the store up to where the lake reaches."""
    view = VIEWS["export_events"]
    archived = read(spark, lake, EVENTS).where(f"seq >= {first}")
    if reads_files_here(spark):
        return reconcile(archived, read_ledger(spark, db, view, first - 1, reached))
    # a cluster gets the store's events from here, window by window
    found = [(part.first, part.last) for part in windows(first - 1, reached)]
    parts = []
    for begin, end in found:
        above = "" if (begin, end) == found[-1] else f" and seq <= {end}"
        part = archived.where(f"seq >= {begin}{above}")
        parts.append(reconcile(part, load_view(spark, db, view, begin - 1, end)))
    return Reconciliation(
        lake_rows=sum(part.lake_rows for part in parts),
        store_rows=sum(part.store_rows for part in parts),
        only_lake=sum(part.only_lake for part in parts),
        only_store=sum(part.only_store for part in parts),
    )


def _expect(expected: int, found: int) -> None:
    if found > expected:
        raise PipelineError(reason=f"the ledger has a gap: {_missing(expected, found)}. Nothing was archived.")
    if found < expected:
        raise PipelineError(reason=f"the ledger has event {found} twice. Nothing was archived.")


def _missing(expected: int, found: int) -> str:
    return f"event {expected} is missing" if found == expected + 1 else f"events {expected} to {found - 1} are missing"


def _named(path: Place, before: int, above: int) -> Iterator[int]:
    """The texts above one that events before another name, in a file of events."""
    with reading(path) as file:
        rows = pq.ParquetFile(file).read(columns=["seq", "body"])
    wanted = rows.filter((pc.field("seq") < before) & (pc.field("body") > above))
    yield from wanted.column("body").to_pylist()


def _stored_texts(db: Path, above: int) -> set[int]:
    with closing(connect(db)) as connection:
        return {id for (id,) in connection.execute("select id from export_bodies where id > ?", (above,))}


def _stored_event(db: Path, seq: int) -> Mapping[str, Any] | None:
    names = EVENTS.schema.names
    with closing(connect(db)) as connection:
        row = connection.execute(f"select {', '.join(names)} from export_events where seq = ?", (seq,)).fetchone()
    return None if row is None else dict(zip(names, row, strict=True))
