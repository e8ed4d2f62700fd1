"""Files that came with a message: handed to the model as they are where it takes them, else named by their path."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: how the kinds that models take begin; a wrong name for a file makes the whole request fail, so nobody's word counts
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)

#: the service's limit is 5 MB of base64 for an image
MAX_IMAGE = 3_700_000
MAX_FILE = 16 << 20
#: all of one prompt; a request may have 32 MB, and base64 adds a third
MAX_ALL = 20 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePart:
    """A file that goes to the model natively."""

    #: by its first bytes, not by what was said of it
    mime: str
    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attached:
    """What became of one attachment."""

    #: inside the inbox; None: there is no such file
    path: Path | None
    #: None: it is named by its path only
    part: FilePart | None


def attach(given: Mapping[str, Any], *, inbox: Path | None, takes: frozenset[str], room: int) -> Attached:
    """Look at one attachment. `takes` are media types, such as `image/png`; `room` is how many bytes may still go.

    A path that leads out of the inbox, by `..` or by a link, is no file.
    """
    path = _inside(inbox, given.get("path"))
    if path is None:
        return Attached(path=None, part=None)
    data = _read(path, takes, room)
    if data is None:
        return Attached(path=path, part=None)
    name = given.get("name")
    return Attached(
        path=path, part=FilePart(mime=kind_of(data), name=name if isinstance(name, str) else path.name, data=data)
    )


def kind_of(data: bytes) -> str:
    """The media type by the first bytes; empty for one that no model takes."""
    for beginning, mime in _BEGINNINGS:
        if data.startswith(beginning):
            return mime
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "")
    return ""


def _inside(inbox: Path | None, given: Any) -> Path | None:
    if inbox is None or not isinstance(given, str) or not given or "\0" in given:
        return None
    try:
        root = inbox.resolve()
        path = (root / given).resolve(strict=True)
        return path if path.is_relative_to(root) and stat.S_ISREG(path.stat().st_mode) else None
    except (OSError, RuntimeError, ValueError):
        return None


def _read(path: Path, takes: frozenset[str], room: int) -> bytes | None:
    try:
        # a file that is swapped for a pipe in between must not hold anybody up
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        try:
            mime = kind_of(opened.read(16))
            limit = min(MAX_IMAGE if mime.startswith("image/") else MAX_FILE, room)
            if mime not in takes or os.fstat(opened.fileno()).st_size > limit:
                return None
            opened.seek(0)
            data = opened.read(limit + 1)
        except OSError:
            return None
    return data if len(data) <= limit else None
