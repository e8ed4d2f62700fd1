"""`manydesks pipeline query`: a question in SQL."""

from __future__ import annotations

import csv
from pathlib import Path

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.pipeline.cells import column, csv_cell, plain_cell, text_cell
from manydesks.cli.pipeline.master import master_option
from manydesks.cli.pipeline.opening import open_lake, open_settings, open_spark
from manydesks.cli.pipeline.progress import progress
from manydesks.cli.pipeline.target import check_target, target
from manydesks.cli.quantity import count
from manydesks.cli.text import one_line


class Query(Command):
    """SQL may begin with a comment, which looks like an option."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(context, [f" {arg}" if arg.startswith(("-- ", "--\n")) else arg for arg in args])


@click.command(cls=Query)
@click.argument("sql")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--parquet", type=click.Path(path_type=Path), metavar="FILE", help="Write a Parquet file instead.")
@click.option("--force", is_flag=True, help="With --parquet: replace a file that is there.")
@master_option
@pass_invocation
def query(invocation: Invocation, sql: str, as_csv: bool, parquet: Path | None, force: bool) -> None:
    """Ask the lake a question in SQL.

    Each table of the lake is there by its name; `manydesks pipeline tables` lists them. A query only reads these: what
    could do more is refused, and so is `identifier(…)`, but for a table's name as it stands: from identifier('events').
    A large answer is for --csv or --parquet: a table and JSON are held in memory as a whole. What is nested is written
    as JSON, also in a table and in CSV. Parquet wants another name for each column.
    """
    out = invocation.out
    if as_csv and (out.json or parquet):
        raise click.UsageError(f"Only one of --csv and {'--json' if out.json else '--parquet'} can be given.")
    if force and parquet is None:
        raise click.UsageError("--force is for --parquet.")
    settings = open_settings(invocation)
    lake = open_lake(invocation, settings)
    if parquet is not None:
        check_target(parquet, invocation.home, lake, force=force)
    from manydesks.domain.errors import PipelineError
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.query import query as ask
    from manydesks.pipeline.query import query_rows, query_to_parquet, require_query
    from manydesks.pipeline.session import own_folder
    from manydesks.pipeline.tables import present

    # both are said at once, not after Spark has started
    require_query(sql)
    with disk_refusals(lake):
        tables = present(lake)
    if not tables:
        raise PipelineError(reason=f"the lake {lake} has no tables yet; `manydesks pipeline run` makes them.")
    with progress(out) as bar, open_spark(invocation, settings, bar) as spark, disk_refusals(lake):
        bar.say("asking")
        if parquet is not None:
            with target(parquet, invocation.home, lake, force=force) as new:
                written = query_to_parquet(lake, sql, spark, new, own_folder(spark) / "answer")
        elif as_csv:
            columns, found_rows = query_rows(lake, sql, spark)
            writer = csv.writer(out, lineterminator="\n")
            bar.clear()
            writer.writerow([csv_cell(name, terminal=out.terminal) for name in columns])
            writer.writerows([csv_cell(cell, terminal=out.terminal) for cell in row] for row in found_rows)
            return
        else:
            found = ask(lake, sql, spark)
    if parquet is not None:
        if out.json:
            out.value({"file": str(parquet.absolute()), "rows": written})
        else:
            out.line(f"{one_line(str(parquet))}: {count(written, 'row')}.")
        return
    if out.json:
        rows = [[plain_cell(cell) for cell in row] for row in found.rows]
        out.value({"columns": list(found.columns), "rows": rows})
    else:
        rows = [[text_cell(cell) for cell in row] for row in found.rows]
        out.table([column(name, [row[at] for row in rows]) for at, name in enumerate(found.columns)], rows)
