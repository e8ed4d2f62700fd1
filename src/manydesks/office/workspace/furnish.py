"""Makes an agent's workspace. What is there already, whoever wrote it, stays as it is."""

from __future__ import annotations

import contextlib
import os
from importlib import resources
from pathlib import Path

FILES = ("AGENTS.md", "SOUL.md", "HEARTBEAT.md", "skills/README.md", "memory/README.md")


def furnish_workspace(folder: Path, *, agent: str, name: str) -> None:
    """The folder, and those of its first files that are missing. Raises `OSError`."""
    fresh = not folder.exists()
    folder.mkdir(mode=0o700, exist_ok=True)
    if not fresh and any(folder.iterdir()):
        # a folder that somebody furnished is not ours to fill up: what is missing may have been removed on purpose
        return
    for file in FILES:
        text = _template(file).replace("{agent}", agent).replace("{name}", name)
        path = folder / file
        path.parent.mkdir(mode=0o700, exist_ok=True)
        # made only if nobody has made it meanwhile; a link in its place is not followed
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                new.write(text)


def _template(file: str) -> str:
    return resources.files("manydesks.office.workspace").joinpath(*file.split("/")).read_text(encoding="utf-8")
