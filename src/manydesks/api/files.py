"""Files that clients send along: what is in them, or, from this machine, where they are."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import Request

from manydesks.api.gate import is_local
from manydesks.api.office import Office
from manydesks.api.shapes.base import FileGiven
from manydesks.domain.errors import BadInput
from manydesks.office.files import keep_bytes, keep_file
from manydesks.settings.home import Home

#: what the system shows of processes there, the office's own among them, looks like files: its environment has secrets
NO_FILES = frozenset({"proc", "sys", "dev"})


async def kept(office: Office, given: Sequence[FileGiven | str], request: Request) -> list[dict[str, Any]]:
    """The files, in the office's keeping. Raises `BadInput`."""
    if not given:
        return []
    if any(isinstance(file, str) for file in given):
        _check_sender(office, request)
    contents = [file if isinstance(file, str) else (file.name, _decoded(file)) for file in given]

    def keep() -> list[dict[str, Any]]:
        return [
            (
                keep_file(_reached(office.home, file), office.home.files)
                if isinstance(file, str)
                else keep_bytes(file[1], file[0], office.home.files)
            ).as_json()
            for file in contents
        ]

    return await office.work(keep)


def _check_sender(office: Office, request: Request) -> None:
    """A path is one of this machine, and read with the owner's rights: whoever names one must be the owner, here."""
    if request.client is None or not is_local(request.client.host):
        raise BadInput("Only a client on the office's machine may name files by path; send what is in them instead.")
    if office.settings.api.auth != "token":
        raise BadInput("Without a login files cannot be named by path; send what is in them instead.")


def _reached(home: Home, given: str) -> str:
    """The path with its links followed. What the office keeps for itself, its secrets above all, is not sent."""
    try:
        path = Path(given).resolve()
        own = home.path.resolve()
    except (OSError, RuntimeError, ValueError):
        raise BadInput(f"The file {given[:200]!r} cannot be read.") from None
    if path.is_relative_to(own) and not path.is_relative_to(own / home.files.name):
        raise BadInput("Of the office's own folder only what is in `files` can be sent by its path.")
    if path.parts[1:2] and path.parts[1] in NO_FILES:
        raise BadInput(f"What is in /{path.parts[1]} is no file of anybody, and cannot be sent.")
    return str(path)


def _decoded(file: FileGiven) -> bytes:
    try:
        return base64.b64decode(file.content, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput(f"The content of the file '{file.name[:60]}' is not valid base64.") from None
