"""`manydesks pipeline tables`: what the lake has, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column, Output
from manydesks.cli.pipeline.opening import open_lake, open_settings, require_home
from manydesks.cli.quantity import size

if TYPE_CHECKING:
    from manydesks.pipeline.columns import TableSpec
    from manydesks.pipeline.place import Place

TABLE_COLUMNS = (
    Column("table"),
    Column("layer"),
    Column("rows", right=True),
    Column("files", right=True),
    Column("bytes", right=True),
    Column("reaches", right=True),
    Column("what it is", flexible=True),
)
COLUMN_COLUMNS = (Column("column"), Column("type"), Column("meaning", flexible=True))


@click.command(cls=Command)
@click.argument("name", metavar="[TABLE]", required=False)
@pass_invocation
def tables(invocation: Invocation, name: str | None) -> None:
    """Show the lake's tables, or the columns of one; needs no Spark.

    REACHES is the event up to which a table knows the ledger; for `bodies` it is the number of a text.
    """
    settings = open_settings(invocation)
    lake, out = open_lake(invocation, settings), invocation.out
    if name is not None:
        _show_columns(out, _spec(name))
        return
    require_home(invocation)
    from manydesks.pipeline.disk import disk_refusals

    with disk_refusals(lake):
        _show_tables(out, lake)


def _spec(name: str) -> TableSpec:
    from difflib import get_close_matches

    from manydesks.domain.errors import BadInput
    from manydesks.pipeline.schemas import TABLES

    if name not in TABLES:
        near = get_close_matches(name.lower(), list(TABLES), n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(TABLES)}."
        raise BadInput(f"There is no table '{name[:60]}'; {hint}")
    return TABLES[name]


def _show_columns(out: Output, spec: TableSpec) -> None:
    rows = [
        (column.name, f"{column.type.simpleString()}{'' if column.nullable else ', never NULL'}", column.says)
        for column in spec.columns
    ]
    if out.json:
        told = [
            {
                "column": column.name,
                "type": column.type.simpleString(),
                "nullable": column.nullable,
                "says": column.says,
            }
            for column in spec.columns
        ]
        out.value({"table": spec.name, "layer": _layer(spec), "says": spec.says, "columns": told})
        return
    out.line(spec.says)
    out.table(COLUMN_COLUMNS, rows)


def _show_tables(out: Output, lake: Place) -> None:
    from manydesks.pipeline import tables as lakes
    from manydesks.pipeline.schemas import TABLES

    found = []
    for spec in TABLES.values():
        files = lakes.snapshot(lake, spec) if lakes.exists(lake, spec) else None
        reaches = lakes.covered(lake, spec, spec.name) or None
        found.append((spec, files, reaches))
    if out.json:
        told = [
            {
                "table": spec.name,
                "layer": _layer(spec),
                "rows": None if files is None else sum(file.rows for file in files),
                "files": None if files is None else len(files),
                "bytes": None if files is None else sum(int(file.entry["size_bytes"]) for file in files),
                "toSeq": reaches,
                "says": spec.says,
            }
            for spec, files, reaches in found
        ]
        out.value({"lake": str(lake), "tables": told})
        return
    out.table(
        TABLE_COLUMNS,
        (
            (
                spec.name,
                _layer(spec),
                None if files is None else f"{sum(file.rows for file in files):,}",
                None if files is None else f"{len(files):,}",
                None if files is None else size(sum(int(file.entry["size_bytes"]) for file in files)),
                None if reaches is None else f"{reaches:,}",
                spec.says,
            )
            for spec, files, reaches in found
        ),
    )


def _layer(spec: TableSpec) -> str | None:
    """The table of runs belongs to none."""
    return None if spec.layer == spec.name else spec.layer
