"""Making the page."""

from __future__ import annotations

from manydesks.domain.errors import ExtraMissing
from manydesks.pipeline.place import Place
from manydesks.pipeline.report.facts import gather
from manydesks.pipeline.report.page import page


def report(lake: Place, days: int, doubt: str | None = None) -> str:
    """The page about the newest `days` that have anything. `doubt`: what a reader has to know of the whole.

    Raises `NoInsights` if what was published is damaged, `ExtraMissing` if there is nothing to draw charts with.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ExtraMissing(feature="The report", extra="pipeline") from error
    return page(gather(lake, days), get_plotlyjs(), doubt)
