"""What to do about a table of which something cannot be read any more: its log, or one of its files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from manydesks.domain.errors import FileDamaged
from manydesks.pipeline.place import Place, readable
from manydesks.pipeline.remote import Remote

ARCHIVE = "it is the archive itself and cannot be made anew; put the whole lake back from a copy of it"
RUNS = "remove the folder {folder}, and the next run begins it anew; what it tells of earlier runs is lost"


def remedy_of_log(folder: object, layer: str) -> str:
    match layer:
        case "silver" | "gold":
            return f"remove the folder {folder}, and `manydesks pipeline run` makes it anew from what was archived"
        case "bronze":
            return ARCHIVE
        case _:
            return RUNS.format(folder=folder)


@contextmanager
def reading(path: Place) -> Iterator[Any]:
    """A file of a table, as pyarrow opens it; if it is not what its log says, `FileDamaged`.

    What the disk or an object store refuses is an `OSError`, as ever.
    """
    try:
        yield readable(path)
    except (pa.ArrowInvalid, FileNotFoundError) as error:
        raise damaged(str(path), error) from error
    except OSError as error:
        # of a file that was opened and makes no sense pyarrow says so without a number of the system
        if error.errno is not None or isinstance(path, Remote):
            raise
        raise damaged(str(path), error) from error


def damaged(path: str, why: object) -> FileDamaged:
    """`why`: an error of a library, of which the first sentence is told."""
    reason = "it is not there" if isinstance(why, FileNotFoundError) else re.split(r"\n|\. ", str(why))[0].rstrip(".")
    # its files lie in `<layer>/<table>/data`, those of the table of runs in `<table>/data`
    folder = path.rpartition("/data/")[0]
    layer, table = folder.split("/")[-2:]
    match layer:
        case "silver" | "gold":
            remedy = "`manydesks pipeline rebuild` makes it anew from what was archived"
        case "bronze":
            remedy = ARCHIVE
        case _:
            remedy = RUNS.format(folder=folder)
    return FileDamaged(path=path, table=table, reason=reason[:200], remedy=remedy)
