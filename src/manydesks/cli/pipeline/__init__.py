"""`manydesks pipeline`: the history of the office as tables.

Spark and its packages are loaded by the command that needs them, and only once everything cheaper was checked.
"""

from __future__ import annotations

import click

from manydesks.cli.command import Group
from manydesks.cli.pipeline.compact import compact
from manydesks.cli.pipeline.export import export
from manydesks.cli.pipeline.query import query
from manydesks.cli.pipeline.report import report
from manydesks.cli.pipeline.run import rebuild, run
from manydesks.cli.pipeline.simulate import simulate
from manydesks.cli.pipeline.status import status
from manydesks.cli.pipeline.tables import tables
from manydesks.cli.pipeline.watch import watch


@click.group(cls=Group)
def pipeline() -> None:
    """The office's history on Spark."""


for command in (run, watch, rebuild, status, tables, query, export, compact, report, simulate):
    pipeline.add_command(command)
