"""Where a lake may lie, and what differs between a folder of this machine and a place that a URI names.

A folder is a `Path`, as everywhere; what is asked of both is a method that both have, or a function here.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.remote import OPTIONS, Remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: a lake, or whatever lies in one
Place: TypeAlias = Path | Remote

#: what means more than itself in a path that Spark reads
PATTERN = re.compile(r"([\[\]{}*?\\])")

#: what delta-rs refuses in a path; a byte that is no UTF-8 is a lone surrogate in Python
_UNTAKEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def place_of(setting: str, own: Path) -> Place:
    """The lake that the setting `pipeline.lake` means; `own`: the folder in the home, also that beside a remote one."""
    if not setting:
        return own
    return Remote.at(setting, own) if "://" in setting else Path(setting)


def check_place(lake: Place) -> None:
    """Raises `PipelineError` if no lake can lie there; one that is not there yet is fine. Changes nothing."""
    if isinstance(lake, Remote):
        return  # the setting says which URIs there are; whether the store answers, the first question to it tells
    whole = str(lake.absolute())
    # delta-rs follows links before it takes a path apart
    for path in (whole, os.path.realpath(whole)):
        _check_path(path)
    if ":" in whole and PATTERN.search(whole):
        # Spark resolves a pattern part by part, and takes what stands before the colon for the scheme of a URI
        raise PipelineError(
            reason=f"the lake {lake} must not have both a ':' and one of '[', ']', '{{', '}}', '*', '?' in its path."
        )
    with disk_refusals(lake):
        try:
            mode = lake.stat().st_mode
        except FileNotFoundError:
            if lake.is_symlink():  # to a disk that is not mounted, say: it must not seem to be an empty lake
                raise PipelineError(
                    reason=f"the lake {lake} cannot be used, it is a link to {lake.readlink()}, where nothing is."
                ) from None
            return
    if not stat.S_ISDIR(mode):
        raise PipelineError(reason=f"the lake {lake} cannot be used, it is not a folder.")


def _check_path(path: str) -> None:
    """Raises `PipelineError` for what delta-rs does not take as it stands."""
    # it decodes the one half of the time, makes a '/' of the other, and then looks for its log in another folder
    for sign in ("%", "\\"):
        if sign in path:
            raise PipelineError(reason=f"the lake {path} must not have a '{sign}' in its path.")
    if _UNTAKEN.search(path):
        raise PipelineError(reason=f"the lake {path!r} must have no control characters and only UTF-8 in its path.")


def check_spark(spark: SparkSession, lake: Place) -> None:
    """Raises `PipelineError` if this Spark has nothing that reads such places; asks the store itself nothing."""
    if not isinstance(lake, Remote):
        return
    from manydesks.pipeline.failure import SPARK_FAILURES

    scheme = lake.for_spark().partition("://")[0]
    context = spark.sparkContext
    try:
        java: Any = context._jvm
        java.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
    except SPARK_FAILURES as error:
        raise PipelineError(
            reason=f"this Spark cannot read {scheme}:// places: name the package that can in [pipeline.spark], as"
            " 'spark.jars.packages' or 'spark.jars'."
        ) from error


def here(lake: Place) -> Path:
    """The folder of this machine that goes with a lake: the lake itself, if it is one."""
    return lake.beside if isinstance(lake, Remote) else lake


def uri(place: Place) -> str:
    """A URI means one folder only; a plain path with odd characters is for delta-rs to guess at."""
    return place.absolute().as_uri()


def delta_options(place: Place) -> dict[str, str] | None:
    """What delta-rs is told beside the URI; credentials it finds in the environment by itself."""
    return dict(OPTIONS) if isinstance(place, Remote) else None


def spark_path(place: Place) -> str:
    """For Spark to write to."""
    return place.for_spark() if isinstance(place, Remote) else str(place)


def spark_pattern(place: Place) -> str:
    """For Spark to read from: it takes a path to read as a pattern, and never decodes a URI."""
    return place.for_spark() if isinstance(place, Remote) else PATTERN.sub(r"\\\1", str(place.absolute()))


def readable(path: Place) -> Any:
    """As pyarrow opens it to read."""
    return path.open() if isinstance(path, Remote) else path


@contextmanager
def writable(path: Place) -> Iterator[Any]:
    """As pyarrow opens it to write Parquet; what the block does not end well is not there, or is swept."""
    if isinstance(path, Remote):
        with path.writing() as file:
            yield file
    else:
        yield path


def file_size(path: Place) -> int:
    """Of a remote one, as it was listed."""
    if isinstance(path, Remote):
        assert path.bytes is not None, "only what was listed"
        return path.bytes
    return path.stat().st_size


def written_at(path: Place) -> int:
    """When it was last written, ms UTC; of a remote one, as it was listed."""
    if isinstance(path, Remote):
        assert path.changed is not None, "only what was listed"
        return path.changed
    return path.stat().st_mtime_ns // 1_000_000


def make_folder(folder: Place) -> None:
    if isinstance(folder, Path):
        folder.mkdir(parents=True)


def remove_tree(folder: Place) -> None:
    """As far as that goes: whoever finds something later removes it then."""
    if isinstance(folder, Remote):
        with suppress(OSError):
            folder.remove_tree()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def sync(paths: Iterable[Place]) -> None:
    """The store forgets what the lake covers: that must be on the disk, not in its cache. What an object store has
    said yes to, it has."""
    for path in paths:
        if isinstance(path, Remote):
            continue
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
