"""Reading JSON that strangers wrote: a value of the wrong type is as good as none."""

from __future__ import annotations

import json
from typing import Any


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """A number of things; None for what cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def parsed(data: str) -> Any:
    """The value of a JSON text; None if it is none. `NaN` and nesting without end are no JSON."""
    try:
        return json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def arguments_of(written: Any) -> Any:
    """A tool's arguments as a model wrote them: an object, or the text as it is if that holds none."""
    if isinstance(written, dict):
        return written
    if not isinstance(written, str) or not written.strip():
        return {}
    value = parsed(written)
    return value if isinstance(value, dict) else written


def as_object(arguments: Any) -> dict[str, Any]:
    """Arguments for the way back: APIs refuse a whole conversation for one call that is no object."""
    return arguments if isinstance(arguments, dict) else {"unreadable": str(arguments)}


def packed(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _refuse(word: str) -> None:
    raise ValueError(word)
