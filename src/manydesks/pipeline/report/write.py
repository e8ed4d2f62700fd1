"""Making the page."""

from __future__ import annotations

from collections.abc import Callable

from manydesks.domain.errors import ExtraMissing
from manydesks.pipeline.place import Place
from manydesks.pipeline.report.facts import gather
from manydesks.pipeline.report.page import page
from manydesks.pipeline.report.redacted import redacted


def report(lake: Place, days: int, redact: Callable[[str], str], doubt: str | None = None) -> str:
    """The page about the newest `days` that have anything; every free text of it went through `redact`.
    `doubt`: what a reader has to know of the whole.

    Raises `NoInsights` if what was published is damaged, `ExtraMissing` if there is nothing to draw charts with.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ExtraMissing(feature="The report", extra="pipeline") from error
    facts = gather(lake, days)
    shown = None if facts is None else redacted(facts, redact)
    return page(shown, get_plotlyjs(), None if doubt is None else redact(doubt))
