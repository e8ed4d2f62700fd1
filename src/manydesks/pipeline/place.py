"""Where a lake may lie."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.disk import disk_refusals

#: what means more than itself in a path that Spark reads
PATTERN = re.compile(r"([\[\]{}*?\\])")


def check_place(lake: Path) -> None:
    """Raises `PipelineError` if no lake can lie there; one that is not there yet is fine. Changes nothing."""
    whole = str(lake.absolute())
    if "%" in whole:
        # delta-rs decodes it half of the time and then looks for its log in another folder
        raise PipelineError(reason=f"the lake {lake} must not have a '%' in its path.")
    if ":" in whole and PATTERN.search(whole):
        # Spark resolves a pattern part by part, and takes what stands before the colon for the scheme of a URI
        raise PipelineError(
            reason=f"the lake {lake} must not have both a ':' and one of '[', ']', '{{', '}}', '*', '?', '\\' in its"
            " path."
        )
    with disk_refusals(lake):
        try:
            mode = lake.stat().st_mode
        except FileNotFoundError:
            return
    if not stat.S_ISDIR(mode):
        raise PipelineError(reason=f"the lake {lake} cannot be used, it is not a folder.")
