"""Thousands of small SQLite files as one Spark data source: the mailboxes of all sessions.

One task for each file would cost more than the reading: files are packed by their size into a few partitions, and a
file that alone is large is cut by the numbers of its rows. The rows of all tables come together, with a row about each
part that says how it went; whoever reads them sorts them out.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from manydesks.pipeline.bronze import SESSIONS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.sources import mailbox
from manydesks.pipeline.sources.mailbox import Cursor, Part
from manydesks.pipeline.sources.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: partitions of one reading at most
PARTITIONS = 8
#: files together smaller than this are one partition
PARTITION_BYTES = 4 << 20
#: a file that is larger is cut into parts of about this size
SPLIT_BYTES = 32 << 20
#: looking into a file costs as much as reading so many bytes
OPEN_BYTES = 32 << 10
#: rows of one Arrow batch at most, and their bytes
BATCH_ROWS = 5_000
BATCH_BYTES = 8 << 20

#: in the column `table`: not a row of a mailbox, but how the reading of a part went
SEEN = "seen"
#: bookkeeping of the lake, which no mailbox has
OWN = ("erased_at", "batch")


def _staged() -> StructType:
    fields = {column.name: StructField(column.name, column.type) for spec in SESSIONS for column in spec.columns}
    told = [StructField(name, StringType()) for name in ("table", "path", "side", "outcome")]
    told += [StructField(name, LongType()) for name in ("reached", "last")]
    merged = {field.name: field for field in told} | {name: one for name, one in fields.items() if name not in OWN}
    return StructType(list(merged.values()))


#: every column of the three tables once, and those of the rows about parts
STAGED = _staged()


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A file, or a part of one, that is to be read."""

    #: below the home
    path: str
    agent: str
    session: str
    part: Part
    #: about how many bytes that is
    size: int

    @property
    def folder(self) -> tuple[str, str]:
        return self.agent, self.session


@dataclass(frozen=True)
class Bundle(InputPartition):
    """What one task reads."""

    number: int
    pieces: tuple[Piece, ...]


def pack(pieces: Iterable[Piece], most: int = PARTITIONS) -> list[Bundle]:
    """Spreads them evenly over as few partitions as they are worth; every piece is in exactly one."""
    largest_first = sorted(pieces, key=lambda piece: (-piece.size, piece.path, piece.part.after))
    total = sum(piece.size + OPEN_BYTES for piece in largest_first)
    count = min(most, len(largest_first), -(-total // PARTITION_BYTES))
    bins: list[tuple[int, int, list[Piece]]] = [(0, number, []) for number in range(count)]
    for piece in largest_first:
        weight, number, inside = heapq.heappop(bins)
        inside.append(piece)
        heapq.heappush(bins, (weight + piece.size + OPEN_BYTES, number, inside))
    return [Bundle(number, tuple(inside)) for _, number, inside in sorted(bins)]


def cut(piece: Piece, sessions: Path, links: Path) -> list[Piece]:
    """A file that is large becomes several pieces, by the numbers of its rows."""
    count = min(PARTITIONS, -(-piece.size // SPLIT_BYTES))
    if count < 2:
        return [piece]
    folder = sessions.joinpath(*piece.folder)
    extent = mailbox.survey(folder, piece.part.side, private(folder, links), f"survey-{os.getpid()}")
    if extent is None:
        return [piece]
    begin = 0
    if piece.part.side == "out" and extent.epoch == piece.part.cursor.epoch:
        cursor = piece.part.cursor
        begin = min(cursor.messages, cursor.steps, cursor.acks)
    width = -(-(extent.last - begin) // count)
    if width < 2:
        return [piece]
    part = replace(piece.part, epoch=extent.epoch, fence=extent.fence if piece.part.side == "in" else None)
    edges = [begin + number * width for number in range(count)]
    # the first begins where the file does, and the last ends where it does by then
    parts = [
        replace(part, after=edge if number else 0, upto=edge + width if number < count - 1 else part.upto)
        for number, edge in enumerate(edges)
    ]
    return [replace(piece, part=one, size=piece.size // count) for one in parts]


def private(folder: Path, links: Path) -> Path:
    """Where the file of this session may be linked: on its own disk, and where no desk can reach."""
    try:
        same = folder.stat().st_dev == links.stat().st_dev
    except OSError:
        same = True
    return links if same else folder / "host"


def read_pieces(sessions: Path, links: Path, pieces: Sequence[Piece], token: str) -> Iterator[pa.RecordBatch]:
    """The rows of all of them, as batches of `STAGED`; `token` is a name that nobody else uses in `links`."""
    gathered = _Gathered()
    for piece in pieces:
        folder = sessions.joinpath(*piece.folder)

        def take(spec: TableSpec, epoch: str | None, row: Sequence[Any], piece: Piece = piece) -> None:
            kind = _KINDS[piece.part.side, spec.name]
            gathered.add(spec.name, kind.columns, (piece.path, piece.agent, piece.session, piece.part.side, epoch), row)

        # memory holds one page more than a batch
        seen = yield from _drained(gathered, folder, piece, private(folder, links), token, take)
        gathered.see(piece, seen)
    yield from gathered.flush()


def _drained(gathered: _Gathered, folder: Path, piece: Piece, links: Path, token: str, take: mailbox.Take) -> Any:
    reading = mailbox.pages(folder, piece.part, links, token, take)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value
        if gathered.full:
            yield from gathered.flush()


class _Gathered:
    """Rows on their way into batches; small files would make batches of two rows each."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, tuple[str, ...]], list[Sequence[Any]]] = {}
        self._count = self._bytes = 0
        self._schema = to_arrow_schema(STAGED)

    @property
    def full(self) -> bool:
        return self._count >= BATCH_ROWS or self._bytes >= BATCH_BYTES

    def add(self, table: str, columns: tuple[str, ...], about: Sequence[Any], row: Sequence[Any]) -> None:
        self._rows.setdefault((table, (*_ABOUT, *columns)), []).append((*about, *row))
        self._count += 1
        self._bytes += sum(len(value) for value in row if isinstance(value, str))

    def see(self, piece: Piece, seen: mailbox.Seen) -> None:
        about = (piece.path, piece.agent, piece.session, piece.part.side, seen.epoch)
        self.add(SEEN, _TOLD, about, (seen.outcome, seen.reason, seen.reached, seen.last))

    def flush(self) -> Iterator[pa.RecordBatch]:
        rows, self._rows = self._rows, {}
        self._count = self._bytes = 0
        for (table, columns), found in rows.items():
            values = dict(zip(columns, zip(*found, strict=True), strict=True)) | {"table": [table] * len(found)}
            arrays = [
                pa.array(values[field.name], field.type) if field.name in values else pa.nulls(len(found), field.type)
                for field in self._schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


_ABOUT = ("path", "agent", "session", "side", "epoch")
_TOLD = ("outcome", "reason", "reached", "last")
_KINDS = {("in", mailbox.GIVEN.spec.name): mailbox.GIVEN} | {("out", kind.spec.name): kind for kind in mailbox.WRITTEN}


def write_plan(path: Path, bundles: Sequence[Bundle]) -> None:
    path.write_text(json.dumps([[asdict(piece) for piece in bundle.pieces] for bundle in bundles]))


def read_plan(path: Path) -> list[Bundle]:
    return [Bundle(number, tuple(map(_piece, pieces))) for number, pieces in enumerate(json.loads(path.read_text()))]


def _piece(found: dict[str, Any]) -> Piece:
    part = found["part"]
    cursor = part["cursor"]
    part = Part(**part | {"cursor": Cursor(**cursor | {"given": tuple(cursor["given"])})})
    return Piece(**found | {"part": part})


def read(spark: SparkSession, sessions: Path, links: Path, plan: Path) -> DataFrame:
    """What the plan's bundles say, one Spark partition for each."""
    options = {"sessions": str(sessions), "links": str(links), "plan": str(plan)}
    with in_one_sentence("Spark could not read the mailboxes"):
        spark.dataSource.register(SessionsSource)
        return spark.read.format(SessionsSource.name()).options(**options).load()


class SessionsSource(DataSource):
    """Options: `sessions`, the folder of all sessions; `links`, a private folder; `plan`, a file of `write_plan`."""

    @classmethod
    def name(cls) -> str:
        return "manydesks_sessions"

    def schema(self) -> StructType:
        return STAGED

    def reader(self, schema: StructType) -> SessionsReader:
        return SessionsReader(dict(self.options))


class SessionsReader(DataSourceReader):
    """Runs on Spark's workers; holds only what pickles."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return read_plan(Path(self.options["plan"])) or [Bundle(0, ())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Bundle)
        sessions, links = Path(self.options["sessions"]), Path(self.options["links"])
        # a task that is tried again may meet its own first try
        token = f"task-{partition.number}-{os.getpid()}"
        yield from read_pieces(sessions, links, partition.pieces, token)
        settle()
