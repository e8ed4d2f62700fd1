"""Server-sent events, and JSON, as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def pack(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + pack(data) + b"\n\n"


def garbled(event: bytes) -> bytes:
    """An event of which half the data is missing; it still ends as an event does."""
    return event[: max(len(event) // 2, event.index(b"data: ") + 7)].rstrip() + b"\n\n"


def pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
