"""`manydesks pipeline`: the history of the office as tables.

Spark and its packages are loaded by the command that needs them, and only once everything cheaper was checked.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manydesks.cli import exits
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column, Output
from manydesks.cli.quantity import count, moment
from manydesks.cli.text import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.settings.model import PipelineSettings

STEP_COLUMNS = (Column("step"), Column("rows", right=True), Column("seconds", right=True))
TABLE_COLUMNS = (Column("table"), Column("rows", right=True))


@click.group(cls=Group)
def pipeline() -> None:
    """The office's history on Spark."""


@pipeline.command()
@pass_invocation
def run(invocation: Invocation) -> None:
    """Bring the lake up to the ledger, and its tables with it.

    Running it twice changes nothing; one that was stopped is taken up where it was.
    """
    _bring(invocation, rebuild=False)


@pipeline.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def rebuild(invocation: Invocation, yes: bool) -> int:
    """Make silver and gold anew from all that was archived.

    The result is the same as what the runs have made; for a lake whose tables somebody has damaged.
    """
    if not consent(invocation, "Make all tables of silver and gold anew?", yes=yes):
        return exits.FAILED
    _bring(invocation, rebuild=True)
    return exits.OK


def _bring(invocation: Invocation, *, rebuild: bool) -> None:
    settings = _settings(invocation)
    lake, db, out = _lake(invocation, settings), _store(invocation), invocation.out
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.jobs.whole import run as bring
    from manydesks.pipeline.lock import hold
    from manydesks.pipeline.sources.ledger import heads
    from manydesks.pipeline.tables import sweep

    heads(db)
    # a lake that is busy or cannot be written: said at once, not after Spark has started
    with hold(lake) as held, disk_refusals(lake):
        sweep(held)
    begun = invocation.clock.monotonic()
    with _progress(out) as tell, _spark(invocation, settings, tell) as spark:
        started = (invocation.clock.monotonic() - begun) / 1000
        shown = lambda step, done, total: tell(f"{step}: {done:,} of {total:,}")  # noqa: E731
        report = bring(db, lake, spark, shown, rebuild=rebuild)
    # after the commit, and also when nothing was new: an earlier run may have been stopped just before this
    if report.to_seq:
        invocation.door.ask("mark_archived", seq=report.to_seq)
    behind = max(heads(db).events - report.to_seq, 0)
    steps = [("spark", None, started), *((step.name, step.rows, step.seconds) for step in report.steps)]
    if out.json:
        out.value(
            {
                "fromSeq": report.from_seq,
                "toSeq": report.to_seq,
                "behind": behind,
                "steps": [{"step": name, "rows": rows, "seconds": seconds} for name, rows, seconds in steps],
            }
        )
        return
    out.table(
        STEP_COLUMNS,
        ((name, None if rows is None else f"{rows:,}", f"{seconds:.1f}") for name, rows, seconds in steps),
    )
    out.line(f"The lake reaches event {report.to_seq:,}; {_behind(behind)}.")


@pipeline.command()
@click.option("--events", type=click.IntRange(100, 1_000_000_000), required=True, help="Events, about so many.")
@click.option("--agents", type=click.IntRange(1, 99), default=8, show_default=True, help="Agents.")
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="Days, until yesterday.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same number makes the same history.")
@pass_invocation
def simulate(invocation: Invocation, events: int, agents: int, days: int, seed: int) -> None:
    """Make up a history in a home that was never used.

    It has bursts and quiet hours, retries, dead letters, hand-offs, joins and a long tail of slow runs: something to
    try the pipeline on. Nothing of it is real, and no agent runs.
    """
    from manydesks.testing.history import DAY_MS, Shape
    from manydesks.testing.simulate import simulate as make_up

    out = invocation.out
    today = invocation.clock.now() // DAY_MS * DAY_MS
    shape = Shape(events=events, agents=agents, days=days, seed=seed, begins=today - days * DAY_MS)
    with _progress(out) as tell:
        made = make_up(invocation.home, shape, lambda done: tell(f"events: {done:,} of about {events:,}"))
    if out.json:
        out.value({"events": made, "agents": agents, "days": days, "seed": seed})
    else:
        out.line(f"{made:,} events of {count(agents, 'agent')} in {count(days, 'day')} were made up.")


@pipeline.command()
@click.argument("sql")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@pass_invocation
def query(invocation: Invocation, sql: str, as_csv: bool) -> None:
    """Ask the lake a question in SQL.

    Each table of the lake is there by its name; `manydesks pipeline status` lists them.
    """
    out = invocation.out
    if as_csv and out.json:
        raise click.UsageError("Only one of --csv and --json can be given.")
    settings = _settings(invocation)
    lake = _lake(invocation, settings)
    from manydesks.domain.errors import PipelineError
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.query import query as ask
    from manydesks.pipeline.query import require_query
    from manydesks.pipeline.tables import present

    # both are said at once, not after Spark has started
    require_query(sql)
    with disk_refusals(lake):
        tables = present(lake)
    if not tables:
        raise PipelineError(reason=f"the lake {lake} has no tables yet; `manydesks pipeline run` makes them.")
    with _progress(out) as tell, _spark(invocation, settings, tell) as spark, disk_refusals(lake):
        tell("asking")
        found = ask(lake, sql, spark)
    rows = [[_plain(cell) for cell in row] for row in found.rows]
    if out.json:
        out.value({"columns": list(found.columns), "rows": rows})
    elif as_csv:
        writer = csv.writer(out.stdout, lineterminator="\n")
        writer.writerow(found.columns)
        writer.writerows(rows)
    else:
        out.table([_column(name, [row[at] for row in rows]) for at, name in enumerate(found.columns)], rows)


@pipeline.command()
@click.option("--check", is_flag=True, help="Compare the lake with the store, row by row; needs Spark.")
@pass_invocation
def status(invocation: Invocation, check: bool) -> int:
    """Show what the lake holds and how far it is behind.

    With --check the exit code is 0 only if lake and store agree on every event that both hold.
    """
    settings = _settings(invocation)
    lake, db, out = _lake(invocation, settings), _store(invocation), invocation.out
    from manydesks.pipeline import tables
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.jobs.runs import latest
    from manydesks.pipeline.schemas import EVENTS
    from manydesks.pipeline.sources.ledger import heads

    head = heads(db).events
    with disk_refusals(lake):
        reached = tables.covered(lake, EVENTS, EVENTS.name)
        counts = {spec.name: tables.count(lake, spec) for spec in tables.present(lake)}
        last = latest(lake)
    behind = max(head - reached, 0)
    found = _reconcile(invocation, settings, lake, reached) if check and reached else None
    if out.json:
        agrees = None if found is None else found.agrees
        told = {"lake": str(lake), "toSeq": reached, "head": head, "behind": behind, "tables": counts}
        out.value({**told, "lastRun": last and _run_value(last), "agrees": agrees})
    else:
        out.line(f"lake      {one_line(str(lake))}")
        out.line(f"reaches   event {reached:,} of {head:,}; {_behind(behind)}")
        if last is not None:
            outcome = out.status("ok") if last["ok"] else f"{out.status('failed')}: {one_line(last['reason'] or '')}"
            out.line(f"last run  {moment(last['ended_at'])}, {outcome}")
        if found is not None:
            words = (
                f"{count(found.store_rows, 'event')} compared, all alike"
                if found.agrees
                else f"{count(found.only_store, 'event')} only in the store, {found.only_lake:,} only in the lake"
            )
            out.line(f"check     {words}")
        if counts:
            out.table(TABLE_COLUMNS, ((name, f"{rows:,}") for name, rows in counts.items()))
    return exits.OK if found is None or found.agrees else exits.FAILED


def _settings(invocation: Invocation) -> PipelineSettings:
    """The settings, once it is sure that the pipeline's packages are there."""
    from manydesks.pipeline.session import require_extra
    from manydesks.settings.load import load_settings

    require_extra()
    return load_settings(invocation.home, invocation.environ).pipeline


def _lake(invocation: Invocation, settings: PipelineSettings) -> Path:
    """Where the lake is, once it is sure that one can be there."""
    from manydesks.pipeline.place import check_place

    lake = Path(settings.lake) if settings.lake else invocation.home.lake
    check_place(lake)
    return lake


def _store(invocation: Invocation) -> Path:
    """Where the store is, once it is sure that this version may read it."""
    from manydesks.pipeline.sources.ledger import require_store

    db = invocation.home.office_db
    require_store(db)
    _ = invocation.reader  # it refuses the store of a newer or an older version
    # not kept: the pipeline opens the store with another SQLite, and closing there frees the locks held here
    invocation.close()
    return db


def _run_value(row: dict[str, Any]) -> dict[str, Any]:
    names = {"job": "job", "ok": "ok", "reason": "reason", "startedAt": "started_at", "endedAt": "ended_at"}
    return {key: row[name] for key, name in names.items()}


def _column(name: str, cells: list[Any]) -> Column:
    numbers = bool(cells) and all(isinstance(cell, int | float | None) for cell in cells)
    return Column(name, right=numbers, flexible=not numbers)


def _behind(events: int) -> str:
    return f"{count(events, 'event')} behind the ledger" if events else "level with the ledger"


def _reconcile(invocation: Invocation, settings: PipelineSettings, lake: Path, reached: int) -> Any:
    from manydesks.pipeline import quality, tables
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.schemas import EVENTS
    from manydesks.pipeline.sources.ledger import VIEWS, oldest, read

    db = invocation.home.office_db
    first = oldest(db)  # what was pruned is in the lake alone, and right so
    with _progress(invocation.out) as tell, _spark(invocation, settings, tell) as spark, disk_refusals(lake):
        tell("comparing")
        archived = tables.read(spark, lake, EVENTS).where(f"seq >= {first}")
        return quality.reconcile(archived, read(spark, db, VIEWS["export_events"], first - 1, reached))


@contextmanager
def _spark(invocation: Invocation, settings: PipelineSettings, tell: _Tell) -> Iterator[SparkSession]:
    from manydesks.pipeline.session import SparkOptions, end, session

    home = invocation.home
    home.prepare()
    tell("starting Spark")
    options = SparkOptions(
        master=settings.master,
        memory=settings.memory,
        shuffle_partitions=settings.shuffle_partitions,
        folder=home.run / "spark",
        log=home.logs / "spark.log",
    )
    spark = session(options)
    try:
        yield spark
    finally:
        end(spark)


class _Tell:
    """One line on a terminal's stderr, written over and over; nothing anywhere else."""

    def __init__(self, out: Output) -> None:
        self._stream = out.stderr if out.stderr.isatty() and not out.json else None

    def __call__(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()


@contextmanager
def _progress(out: Output) -> Iterator[_Tell]:
    tell = _Tell(out)
    try:
        yield tell
    finally:
        tell("")


def _plain(cell: Any) -> Any:
    """A cell of Spark as JSON knows it; what it does not know becomes text."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    if cell is None or isinstance(cell, bool | int | float | str):
        return cell
    if hasattr(cell, "asDict"):
        cell = cell.asDict()
    if isinstance(cell, dict):
        return {str(key): _plain(value) for key, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_plain(value) for value in cell]
    return bytes(cell).hex() if isinstance(cell, bytes | bytearray) else str(cell)
