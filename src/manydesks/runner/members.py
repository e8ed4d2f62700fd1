"""How providers and tools are found: built-ins in their folder, strangers through entry points, by the same door."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from types import ModuleType
from typing import TypeVar

log = logging.getLogger(__name__)

Member = TypeVar("Member")

#: files of such a folder that are not members
_CONTRACT = frozenset({"base", "registry"})


def built_in(package: ModuleType, attribute: str, kind: type[Member]) -> list[Member]:
    """The `attribute` of every module in the package that has one."""
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__) if found.name not in _CONTRACT)
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return [getattr(module, attribute) for module in modules if isinstance(getattr(module, attribute, None), kind)]


def named(package: ModuleType, name: str, attribute: str, kind: type[Member]) -> Member | None:
    """The `attribute` of the module that is called like it; None if there is no such member in the package."""
    if name in _CONTRACT or not any(found.name == name for found in pkgutil.iter_modules(package.__path__)):
        return None
    member = getattr(importlib.import_module(f"{package.__name__}.{name}"), attribute, None)
    return member if isinstance(member, kind) else None


def strangers(group: str, kind: type[Member]) -> list[Member]:
    """What installed packages announce. One that cannot be loaded is left out and said: the others still work."""
    # slow to import, and a member of ours needs none of it
    from importlib.metadata import entry_points

    found: list[Member] = []
    for point in entry_points(group=group):
        try:
            member = point.load()
        except Exception:
            log.exception("The extension '%s' of %s cannot be loaded and is left out", point.value, group)
            continue
        if isinstance(member, kind):
            found.append(member)
        else:
            log.warning("The extension '%s' of %s is not a %s and is left out", point.value, group, kind.__name__)
    return found
