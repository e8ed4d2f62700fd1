"""What the disk refuses, as one sentence for a person."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.domain.errors import PipelineError
from manydesks.settings.home import reason_of

if TYPE_CHECKING:
    from manydesks.pipeline.place import Place

#: with less than this SQLite cannot even open a store to read: its index of the log takes 32 KiB
LEAST_BYTES = 64 * 1024

FULL = "the disk is full"

#: delta-rs gives the number in its text only
_NUMBER = re.compile(r"\(os error (\d+)\)")

#: delta-rs tells the causes of an error line by line, with an arrow before each, often in colour
_CAUSE = re.compile(r"\s*(?:\x1b\[\d+m)?↳(?:\x1b\[0m)?\s*")
#: which request it was: the address may be signed, and so as good as a password
_REQUEST = re.compile(r"Error performing (?:list request|[A-Z]+ .*? - )(?:: )?", re.DOTALL)
#: nothing in the environment says who asks, so it asked the machine that it may run on
_UNKNOWN = re.compile(r"(?:error occurred while loading|no) credentials|Error performing token request")
_CREDENTIALS = (
    "it takes no request without credentials, which the environment has to have (for S3 AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY, for Google GOOGLE_SERVICE_ACCOUNT, for Azure AZURE_STORAGE_ACCOUNT_KEY)"
)
_ANSWER = re.compile(r"<\?xml.*?(?:<Code>(\w+)</Code>.*)?$", re.DOTALL)


@contextmanager
def disk_refusals(path: Place) -> Iterator[None]:
    """What the operating system refuses inside becomes a `PipelineError` that names the file, or else `path`.

    A full disk is told as such also where delta-rs has another name for it than `OSError`.

    A connection that broke is no matter of the disk and passes: Spark's Java, or whoever reads our output, is gone.
    """
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else path
        raise PipelineError(reason=f"{where} cannot be used, {_reason(error)}.") from error
    except Exception as error:
        if not _is_delta_on_full(error):
            raise
        raise PipelineError(reason=f"{path} cannot be used, {FULL}.") from error


def is_full(path: Path) -> bool:
    """Whether the disk of this folder has no room for even the smallest work; False if that cannot be told."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < LEAST_BYTES


def _is_delta_on_full(error: Exception) -> bool:
    # not imported: a backup asks for the lake's lock where the package need not be, and then nothing here is its error
    deltalake = sys.modules.get("deltalake.exceptions")
    if deltalake is None or not isinstance(error, deltalake.DeltaError):
        return False
    return str(errno.ENOSPC) in _NUMBER.findall(str(error))


def _reason(error: OSError) -> str:
    if _UNKNOWN.search(str(error)):
        return _CREDENTIALS
    number = _NUMBER.search(str(error)) if error.errno is None else None
    if number is not None:
        code = int(number.group(1))
        return reason_of(OSError(code, os.strerror(code)))
    said = reason_of(error)
    if _CAUSE.search(said):
        said = _REQUEST.sub("", _CAUSE.sub(": ", said.strip()))
        said = _ANSWER.sub(lambda found: found[1] or "", said).rstrip(": .")
    return " ".join(said.split())
