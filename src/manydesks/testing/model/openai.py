"""What OpenAI's two dialects share: how an error looks."""

from __future__ import annotations

from typing import Any

#: the status, and the error's type and code
ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", None),
}


def failure(status: int, message: str) -> dict[str, Any]:
    """The body that comes with an HTTP status."""
    type, code = ERRORS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return {"error": {"message": message, "type": type, "param": None, "code": code}}
