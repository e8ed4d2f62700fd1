"""The words between a command and the host: one JSON line each way over an owner-only Unix socket."""

from __future__ import annotations

import json
from typing import Any

from manydesks.domain import errors
from manydesks.domain.errors import ManyDesksError, OfficeError

SOCKET = "office.sock"

#: the 8 MiB that a command reads at most, every byte escaped as JSON, with room to spare: what is too long for a
#: message still arrives, so that the clerk can say how long it may be
LINE_BYTES = (6 * 8 + 1) * 1024 * 1024


def encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode() + b"\n"


def refusal(error: ManyDesksError) -> dict[str, Any]:
    return {"error": str(error), "type": type(error).__name__}


def result_of(answer: dict[str, Any]) -> dict[str, Any]:
    """What the host answered, or the error it raised, raised again here."""
    if "error" not in answer:
        result: dict[str, Any] = answer["result"]
        return result
    kind = getattr(errors, str(answer.get("type")), OfficeError)
    if not (isinstance(kind, type) and issubclass(kind, ManyDesksError)):
        kind = OfficeError
    raise kind(str(answer["error"]))
