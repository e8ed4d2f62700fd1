"""Errors as clients get them: `{"error": "<sentence>"}` with the right status, and nothing of how it came about."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from manydesks.domain.errors import (
    BadInput,
    Duplicate,
    LedgerPruned,
    ManyDesksError,
    NoInsights,
    SettingsError,
    Stale,
    StoreError,
    UnknownAgent,
    UnknownMessage,
    UnknownQuestion,
    UnknownResponse,
    UnknownRun,
    UnknownSession,
    UnknownTeam,
    UnknownTrace,
    WrongState,
)

UNKNOWN = (
    UnknownAgent,
    UnknownTeam,
    UnknownMessage,
    UnknownTrace,
    UnknownRun,
    UnknownQuestion,
    UnknownResponse,
    UnknownSession,
)
INTERNAL = "The office failed to do this; its log says more (`manydesks logs`)."


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None, **more: Any) -> Response:
    body = json.dumps({"error": sentence, **more}, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status, headers=headers, media_type="application/json")


def refused(error: ManyDesksError) -> Response:
    """What an act, or a look, raised."""
    match error:
        case Duplicate():
            return refusal(409, str(error), messageId=error.details.get("message"))
        case Stale():
            return refusal(409, str(error), version=error.details.get("version"))
        case WrongState():
            return refusal(409, str(error))
        case LedgerPruned():
            return refusal(410, str(error), firstSeq=error.details.get("first"))
        case NoInsights():
            return refusal(404, str(error))
        case BadInput() if isinstance(error, UNKNOWN):
            return refusal(404, str(error))
        case BadInput() | SettingsError():
            return refusal(400, str(error))
        case StoreError():
            return refusal(503, "The store cannot be used now; nothing was changed. Try again.")
        case _:
            return refusal(503, "The office cannot do this now; its log says more (`manydesks logs`).")
