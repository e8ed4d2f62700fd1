"""`manydesks pipeline report`: the history as a page with charts."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import Whole
from manydesks.cli.pipeline.opening import open_lake, open_settings, require_home
from manydesks.cli.pipeline.redaction import redaction
from manydesks.cli.pipeline.target import check_target, target
from manydesks.cli.quantity import size
from manydesks.cli.text import one_line
from manydesks.domain.errors import PipelineError

if TYPE_CHECKING:
    from manydesks.pipeline.place import Place

#: in the current folder, replaced by the next one; not in the lake, which must not keep what it was told to forget
NAME = "manydesks-report.html"


@click.command(cls=Command)
@click.option(
    "--out", "file", type=click.Path(path_type=Path), metavar="FILE", help=f"Where the page goes  [default: {NAME}]"
)
@click.option("--force", is_flag=True, help="With --out: replace a file that is there.")
@click.option("--days", type=Whole(1, 3660), default=92, show_default=True, help="The newest days, so many.")
@click.option("--open", "show", is_flag=True, help="Show it in the browser.")
@pass_invocation
def report(invocation: Invocation, file: Path | None, force: bool, days: int, show: bool) -> None:
    """Write one HTML page with charts; needs no Spark.

    It shows messages, cost, how long things took, hand-offs, busy hours, topics, dead letters and the slowest traces,
    as the last run of the pipeline knows them. The page is one file that loads nothing from anywhere. The office's
    secrets, and what looks like a key, are replaced by ***; that is a net and not a promise.
    """
    out = invocation.out
    if force and file is None:
        raise click.UsageError("--force is for --out.")
    require_home(invocation)
    settings = open_settings(invocation)
    lake = open_lake(invocation, settings)
    place = file or Path(NAME)
    check_target(place, invocation.home, lake, force=force or file is None)
    redact = redaction(invocation)
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.report.write import report as make

    with disk_refusals(lake):
        why = _why_not_ours(invocation, lake)
        doubt = None if why is None else f"It may not be of this office: {why}"
        page = make(lake, days, redact, doubt)
        if doubt is not None:
            out.note(doubt)
    with target(place, invocation.home, lake, force=force or file is None) as new:
        new.write_text(page, encoding="utf-8")
    if out.json:
        out.value({"file": str(place.absolute()), "bytes": len(page.encode())})
    else:
        out.line(f"{one_line(str(place.absolute()))}: {size(len(page.encode()))}.")
    if show and not webbrowser.open(place.absolute().as_uri()):
        out.note("There is no browser here to show it in.")


def _why_not_ours(invocation: Invocation, lake: Place) -> str | None:
    """Why the lake is not that of this office's store; None: it is, or there is none that can be asked."""
    from manydesks.pipeline.quality import why_refused

    db = invocation.home.office_db
    try:
        return why_refused(lake, db) if db.is_file() else None
    except PipelineError:
        return None  # the page is made of the lake alone
