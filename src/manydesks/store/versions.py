"""Versions of agents and teams: what a surface has read, so that it does not write over what somebody else wrote since.

A version is made of what the entity is, so it changes with every change and needs no column.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import Stale

#: what a card or a team says of itself; when it was changed, and whether it is paused, is not what people edit
AGENT = ("id", "name", "provider", "model", "workspace", "sandbox", "options", "concurrency", "budget", "reaches")
TEAM = ("id", "name", "leader", "members")
LENGTH = 16


def version_of(entity: Mapping[str, Any], fields: tuple[str, ...]) -> str:
    said = json.dumps([entity[field] or None for field in fields], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(said.encode()).hexdigest()[:LENGTH]


def check(entity: Mapping[str, Any], fields: tuple[str, ...], expected: str | None, what: str) -> None:
    """Raises `Stale` if it is not the version that was read. None: whatever it is."""
    if expected is not None and (now := version_of(entity, fields)) != expected:
        raise Stale(what=what, version=now)
