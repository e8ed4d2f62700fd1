"""What the archivist remembers from one opening of the office to the next: `run/pipeline.json`.

It is not in the ledger: a run must not make work for the next one. A file that is gone or damaged costs a memory, no
more.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from manydesks.settings.home import Home

log = logging.getLogger(__name__)

NAME = "pipeline.json"


@dataclass(frozen=True, kw_only=True)
class Last:
    """What ran last."""

    job: str
    #: milliseconds UTC
    started_at: int
    ended_at: int
    ok: bool
    #: of a failure: one sentence
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    #: the lake had all of the ledger then, or it was first thought of
    level_at: int
    last: Last | None = None


def read(home: Home) -> Record | None:
    """None: nothing is remembered."""
    try:
        found = json.loads(_path(home).read_bytes())
        last = found["last"]
        return Record(level_at=int(found["level_at"]), last=None if last is None else Last(**last))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(home: Home, record: Record) -> None:
    """Blocks for a moment. A disk that refuses is said in the log."""
    path = _path(home)
    fresh = path.with_name(f"{NAME}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(record), file)
        fresh.replace(path)
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error.strerror, extra={"action": "pipeline_record_lost"})


def _path(home: Home) -> Path:
    return home.run / NAME
