"""The options of the provider `claude`, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from manydesks.domain.errors import BadInput

#: each with one line for people
HELP = {
    "program": "path of the program, if it is not `claude` on the PATH or the one inside claude-agent-sdk",
    "warm": "true (default): one process serves turn after turn; false: each turn starts its own",
    "permissions": (
        "bypass: everything is allowed (default inside a sandbox); edits: files of the workspace and `allowed_tools` "
        "only (default without one)"
    ),
    "allowed_tools": "a list of tools that are allowed besides the office's, such as Bash(git *)",
    "retries": "how often claude itself repeats a call that failed, 0 to 10 (default 2); the office retries after that",
    "silence_seconds": "a turn that says nothing for so long, with no tool at work, has failed; default 600",
    "max_prompt_bytes": "messages that make a longer prompt are refused; default 4194304",
    "zone": "time zone in which the agent reads times, such as Europe/Berlin; default UTC",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    program: str | None = None
    warm: bool = True
    #: bypass or edits; None: by whether there is a sandbox
    permissions: str | None = None
    allowed_tools: tuple[str, ...] = ()
    retries: int = 2
    silence_seconds: float = 600.0
    max_prompt_bytes: int = 4 << 20
    zone: str = "UTC"


def read_options(given: Mapping[str, Any]) -> Options:
    """Raises `BadInput` with one sentence about the first option that is not allowed."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in HELP:
            raise BadInput(reason=f"claude has no option '{name}'; it has {', '.join(HELP)}")
        values[name] = _CHECKS[name](name, value)
    return Options(**values)


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput(reason=f"option '{name}' of claude must be a path")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadInput(reason=f"option '{name}' of claude must be true or false")
    return value


def _permissions(name: str, value: Any) -> str:
    if value not in ("bypass", "edits"):
        raise BadInput(reason=f"option '{name}' of claude must be bypass or edits")
    return str(value)


def _names(name: str, value: Any) -> tuple[str, ...]:
    fine = isinstance(value, list | tuple) and all(isinstance(item, str) and item[:1].isalpha() for item in value)
    if not fine:
        raise BadInput(reason=f"option '{name}' of claude must be a list of names of tools")
    return tuple(value)


def _retries(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 10:
        raise BadInput(reason=f"option '{name}' of claude must be a whole number from 0 to 10")
    return value


def _seconds(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= 86_400:
        raise BadInput(reason=f"option '{name}' of claude must be a number of seconds above 0, at most 86400")
    return float(value)


def _bytes(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 64 << 20:
        raise BadInput(reason=f"option '{name}' of claude must be a number of bytes from 1 to {64 << 20}")
    return value


def _zone(name: str, value: Any) -> str:
    try:
        if isinstance(value, str) and value:
            ZoneInfo(value)
            return value
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # said below, as for everything else that is no zone
    raise BadInput(reason=f"option '{name}' of claude must be the name of a time zone, such as Europe/Berlin")


_CHECKS = {
    "program": _path,
    "warm": _flag,
    "permissions": _permissions,
    "allowed_tools": _names,
    "retries": _retries,
    "silence_seconds": _seconds,
    "max_prompt_bytes": _bytes,
    "zone": _zone,
}
