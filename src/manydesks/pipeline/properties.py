"""Options of Spark in a file that only this user can read: what stands on a command line, every user of the machine can
see, and some options are passwords."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


@contextmanager
def properties_file(folder: Path, options: Mapping[str, str]) -> Iterator[Path]:
    """A file of Java properties with these options, there only during the block."""
    path = folder / f"options.{os.getpid()}.properties"
    path.unlink(missing_ok=True)  # a run that was killed may have had the same number
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as lines:
            lines.writelines(f"{key}={_escaped(value)}\n" for key, value in options.items())
        yield path
    finally:
        path.unlink(missing_ok=True)


def _escaped(value: str) -> str:
    text = value.translate(_ESCAPES)
    return f"\\{text}" if text.startswith(" ") else text
