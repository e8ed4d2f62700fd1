"""Where the program of a provider is: the option first, then the path, then the copy that a package brings along."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

#: packages that bring a program along, and its place in them; they are not imported
BUNDLED = {"claude": ("claude_agent_sdk", "_bundled/claude")}


def find_program(name: str, *, given: str | None = None) -> Path | None:
    """The program's real file, links followed, so that a sandbox can show exactly that file; None: there is none.

    `given` is an option and rules alone: a wrong one is not made good by another copy.
    """
    if given is not None:
        return _executable(Path(given).expanduser())
    on_path = shutil.which(name)
    if on_path is not None:
        return _executable(Path(on_path))
    if name not in BUNDLED:
        return None
    package, place = BUNDLED[name]
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return _executable(Path(spec.origin).parent / place)


def _executable(path: Path) -> Path | None:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return real if real.is_file() and os.access(real, os.X_OK) else None
