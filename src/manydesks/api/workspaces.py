"""Looks into agents' workspaces. They belong to the agents, which may put anything there: nothing is followed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from manydesks.domain.errors import BadInput, Stale
from manydesks.mailbox import walk
from manydesks.office.workspace import manual
from manydesks.office.workspace.roster import renewed
from manydesks.settings.home import Home

#: files of a folder that are shown, and how much of each
MOST_FILES = 500
MOST_BYTES = 256 * 1024
MOST_DESCRIPTION = 500
MEMORY = "memory"
INDEX = "README.md"


def read_prompt(home: Home, agent: str) -> dict[str, Any]:
    """The agent's manual; empty if it has none. Blocks."""
    try:
        found = manual.read(home.workspace(agent))
    except BadInput as error:
        raise BadInput(f"The manual of '{agent}' cannot be read: {error}.") from None
    data = found or b""
    # the office's own part changes with whoever comes and goes, which is nobody's edit
    owned = renewed(data, "")
    version = hashlib.sha256(data if owned is None else owned).hexdigest()[:16]
    text = data.decode("utf-8", "replace")
    return {"content": text, "path": f"workspaces/{agent}/{manual.NAME}", "version": version}


def check_prompt(home: Home, agent: str, text: str) -> None:
    """Whether it could be written, before anything else is changed. Blocks. The agent may not be there yet."""
    folder = home.workspace(agent)
    try:
        manual.check(folder, text.encode())
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise BadInput("its workspace cannot be written")
    except (BadInput, OSError, UnicodeEncodeError) as error:
        raise BadInput(f"The manual of '{agent}' cannot be written: {_words(error)}.") from None


def write_prompt(home: Home, agent: str, text: str, version: str | None) -> None:
    """Put another manual in its place, whole. Blocks. `version`: what was read, else `Stale`."""
    if version is not None and (now := read_prompt(home, agent)["version"]) != version:
        raise Stale(what=f"The manual of '{agent}'", version=now)
    try:
        manual.write(home.workspace(agent), text.encode())
    except (BadInput, OSError, UnicodeEncodeError) as error:
        raise BadInput(f"The manual of '{agent}' cannot be written: {_words(error)}.") from None


def read_heartbeat(home: Home, agent: str) -> dict[str, Any]:
    """What the agent looks after by itself; empty if it has none. Blocks."""
    try:
        data = manual.read(home.workspace(agent), manual.HEARTBEAT) or b""
    except BadInput as error:
        raise BadInput(f"The heartbeat of '{agent}' cannot be read: {error}.") from None
    version = hashlib.sha256(data).hexdigest()[:16]
    path = f"workspaces/{agent}/{manual.HEARTBEAT}"
    return {"content": data.decode("utf-8", "replace"), "path": path, "version": version}


def write_heartbeat(home: Home, agent: str, text: str, version: str | None) -> None:
    """Put another one in its place, whole. Blocks. `version`: what was read, else `Stale`."""
    if version is not None and (now := read_heartbeat(home, agent)["version"]) != version:
        raise Stale(what=f"The heartbeat of '{agent}'", version=now)
    try:
        manual.write(home.workspace(agent), text.encode(), manual.HEARTBEAT)
    except (BadInput, OSError, UnicodeEncodeError) as error:
        raise BadInput(f"The heartbeat of '{agent}' cannot be written: {_words(error)}.") from None


def memory(home: Home, agent: str) -> dict[str, Any]:
    """The files of its memory, by name, and the one that explains them. Blocks."""
    root = home.workspace(agent)
    return {
        "index": _text(root, (MEMORY, INDEX)) or "",
        "files": [_file(root, (MEMORY, name)) for name in _names(root, MEMORY, stat.S_ISREG)],
        "memoryDir": f"workspaces/{agent}/{MEMORY}",
    }


def skills(home: Home, agent: str) -> list[dict[str, Any]]:
    """Its skills: folders with a `SKILL.md`. Blocks."""
    root = home.workspace(agent)
    found = []
    for name in _names(root, "skills", stat.S_ISDIR):
        text = _text(root, ("skills", name, "SKILL.md"))
        if text is not None:
            path = f"workspaces/{agent}/skills/{name}"
            found.append({"id": name, "name": name, "description": _description(text), "path": path})
    return found


def _names(root: Path, folder: str, kind: Any) -> list[str]:
    try:
        with walk.folder(root, (folder,)) as inside:
            names = sorted(filter(str.isprintable, os.listdir(inside)))[:MOST_FILES]  # noqa: PTH208 - an open folder
            return [name for name in names if kind(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode)]
    except (BadInput, OSError):
        return []


def _file(root: Path, parts: tuple[str, ...]) -> dict[str, Any]:
    content: str | None = None
    size = modified = 0
    try:
        with walk.opened(root, parts) as handle:
            found = os.fstat(handle)
            size, modified = found.st_size, found.st_mtime_ns // 1_000_000
            if size <= MOST_BYTES:
                content = os.read(handle, MOST_BYTES).decode()
    except (BadInput, OSError, UnicodeDecodeError):
        content = None
    return {"name": parts[-1], "path": parts[-1], "bytes": size, "modifiedAt": modified, "content": content}


def _text(root: Path, parts: tuple[str, ...]) -> str | None:
    try:
        with walk.opened(root, parts) as handle:
            return os.read(handle, MOST_BYTES).decode("utf-8", "replace")
    except (BadInput, OSError):
        return None


def _description(text: str) -> str | None:
    """As its front matter says, else its first line of prose."""
    lines = [line.strip() for line in text.splitlines()]
    said = next((line.partition(":")[2].strip() for line in lines[:20] if line.startswith("description:")), None)
    prose = (line for line in lines if line and not line.startswith(("#", "---")) and ":" not in line[:30])
    found = said or next(prose, None)
    return found[:MOST_DESCRIPTION] if found else None


def _words(error: Exception) -> str:
    return error.strerror or "the disk refuses" if isinstance(error, OSError) else str(error)
