"""Which plugins there are: files in the home's `plugins/`, and what installed packages announce. Nothing is loaded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.ids import NAME

log = logging.getLogger(__name__)

GROUP = "manydesks.hooks"
#: more are no plugins of a person any more
MOST = 64


@dataclass(frozen=True, kw_only=True)
class Found:
    """One plugin, before its code was looked at."""

    name: str
    #: the file; None: an entry point
    file: Path | None = None
    #: the module of an entry point
    module: str | None = None
    #: why it can never be loaded; None: it can be tried
    fault: str | None = None

    @property
    def source(self) -> str:
        """As people read it."""
        return str(self.file) if self.file is not None else f"{self.module} (installed)"


def find(folder: Path) -> list[Found]:
    """By name. A file goes before an installed plugin of the same name: it is what the owner put there by hand."""
    installed = _installed()
    ours = {found.name: found for found in _files(folder)}
    return [found for _, found in sorted({**installed, **ours}.items())][:MOST]


def _files(folder: Path) -> list[Found]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("%s cannot be read: %s", folder, error.strerror, extra={"action": "plugins_unreadable"})
        return []
    found = []
    for path in paths:
        if path.suffix != ".py" or path.name.startswith((".", "_")):
            continue
        fault = None
        if NAME.fullmatch(path.stem) is None:
            fault = "a plugin's name is 1 to 32 lowercase letters, digits, and _ - inside"
        found.append(Found(name=path.stem[:64], file=path, fault=fault))
    return found


def _installed() -> Mapping[str, Found]:
    # slow to import, and an office opens once
    from importlib.metadata import entry_points

    found = {}
    for point in entry_points(group=GROUP):
        if NAME.fullmatch(point.name) is None:
            log.warning("The plugin '%s' has no name that is allowed", point.name, extra={"action": "plugin_refused"})
            continue
        found[point.name] = Found(name=point.name, module=point.module)
    return found
