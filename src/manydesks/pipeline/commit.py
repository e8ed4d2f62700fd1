"""How files become part of a table: written into an attempt folder, synced, then named by one entry of the table's log.

Until that entry is there no reader sees them, so an attempt that was killed leaves only files that nobody refers to;
the next run sweeps them. In an object store they stay until they are vacuumed: another office may be writing them.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction
from pyspark.sql.types import LongType

from manydesks.domain.clock import Clock
from manydesks.domain.errors import PipelineError
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.place import (
    Place,
    delta_options,
    file_size,
    make_folder,
    readable,
    remove_tree,
    sync,
    uri,
)
from manydesks.pipeline.remote import Remote

#: an attempt folder that holds this file was committed; a later compaction may leave nothing of it in the snapshot,
#: but its files still serve time travel and must not be swept
COMMITTED = "_committed"

#: the folders of an attempt at a table that is written by days: the column itself stays in the files, since a folder's
#: name is Spark's business and no other reader's
DAY_FOLDER = "part_day"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one commit does besides adding the files that are written."""

    #: entries that leave the snapshot; their files stay for readers that hold an older one
    removed: Sequence[RemoveAction] = ()
    #: False: the rows are the same as before, only lying in other files
    changes_data: bool = True
    properties: CommitProperties | None = None
    #: the table's newest commit, as far as this change knows; if there is another by now, nothing is changed
    base: int | None = None


def commit_files(
    folder: Place, spec: TableSpec, write: Callable[[Any], None], clock: Clock, change: Change
) -> tuple[int, int]:
    """Lets `write` fill a fresh attempt folder, then commits its files; the rows and the files that were added.

    After the return they survive a power cut.
    """
    table = folder.absolute()
    attempt = table / "data" / uuid.uuid4().hex
    try:
        make_folder(attempt)
        write(attempt)
        written: list[Any] = sorted(attempt.rglob("*.parquet"))
        rows = {path: pq.read_metadata(readable(path)).num_rows for path in written}
        kept = [path for path in written if rows[path]]
        added = [_add_action(path, table, spec, clock.now(), changes_data=change.changes_data) for path in kept]
        if isinstance(attempt, Path):
            sync((*written, *{path.parent for path in written}, attempt, attempt.parent, table))
    except BaseException:
        # the sweep of the next run would do it too, but a full disk should not stay full until then
        remove_tree(attempt)
        raise
    _commit(table, [*change.removed, *added], change)
    if isinstance(attempt, Path):
        (attempt / COMMITTED).touch()
    return sum(rows.values()), len(kept)


def sweep_attempts(folder: Path, live: Sequence[Path]) -> None:
    """Removes what killed attempts left in a table; `live` are the files of its snapshot."""
    attempts = folder / "data"
    if not attempts.is_dir():
        return
    unmarked = [found for found in attempts.iterdir() if not (found / COMMITTED).exists()]
    if not unmarked:
        return
    named = {path.relative_to(attempts).parts[0] for path in live if path.is_relative_to(attempts)}
    for found in unmarked:
        if found.name not in named:
            # the Java of a killed run lives a moment longer and cleans up too; what is left goes with the next sweep
            shutil.rmtree(found, ignore_errors=True)
    for found in unmarked:  # only now: on a full disk the mark needs the room that was just freed
        if found.name in named:
            (found / COMMITTED).touch()  # it was killed between the commit and the mark


def sync_log(folder: Place) -> None:
    sync([folder / "_delta_log"])


def _commit(folder: Place, actions: list[Any], change: Change) -> None:
    table = deltalake.DeltaTable(uri(folder), storage_options=delta_options(folder))
    before = table.version()
    if isinstance(folder, Remote):
        _commit_if_alone(folder, table, actions, change)
        return
    table.create_write_transaction(actions, "append", table.schema(), commit_properties=change.properties)
    log = folder / "_delta_log"
    sync(path for path in log.glob("[0-9]*.json") if int(path.stem) > before)
    sync([log])


def _commit_if_alone(folder: Remote, table: deltalake.DeltaTable, actions: list[Any], change: Change) -> None:
    """The lake's lock is one of this machine: of another one's writers only the table's log knows, and it takes the
    next entry from one of them alone."""
    transactions = None if change.properties is None else change.properties.app_transactions
    # not tried again on top of the other's commit: what is added was worked out without it
    properties = CommitProperties(max_commit_retries=0, app_transactions=transactions)
    error = None
    if change.base is None or table.version() == change.base:
        try:
            table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)
        except CommitFailedError as failed:
            error = failed
        else:
            return
    raise PipelineError(
        reason=f"somebody else, perhaps another office, has written to {folder} meanwhile: this run ends here, and the"
        " next one looks again. A lake is one office's."
    ) from error


def _add_action(path: Any, table: Place, spec: TableSpec, now: int, *, changes_data: bool) -> AddAction:
    footer = pq.read_metadata(readable(path))
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index, column in enumerate(spec.schema.fields):
        found = [group.column(index).statistics for group in groups]
        if any(one is None or not one.has_null_count for one in found):
            continue
        nulls[column.name] = sum(one.null_count for one in found)
        ranges = [one for one in found if one.has_min_max]
        # of texts only the day: others may be cut, and a reader would believe the cut
        if (isinstance(column.dataType, LongType) or column.name == DAY) and ranges:
            least[column.name] = min(one.min for one in ranges)
            most[column.name] = max(one.max for one in ranges)
    stats = {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return AddAction(
        path=path.relative_to(table).as_posix(),
        size=file_size(path),
        partition_values={},
        modification_time=now,
        data_change=changes_data,
        stats=json.dumps(stats),
    )
