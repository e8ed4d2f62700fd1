"""The languages that models are called in: what is open to desks, which headers pass, what an error looks like.

Headers and query names are lists of what passes, not of what is stripped: an auth header that nobody thought of stays
outside, and so do the names of the owner's account in answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from manydesks.domain.errors import SettingsError

#: the shape of an answer, by which its usage is read
Wire = Literal["messages", "responses", "chat"]


@dataclass(frozen=True, kw_only=True)
class Route:
    """One thing that desks may ask for."""

    method: Literal["GET", "POST"]
    #: exactly this, after the upstream's base_url
    path: str
    #: how its usage is read; None: it costs nothing
    wire: Wire | None = None


@dataclass(frozen=True, kw_only=True)
class Dialect:
    #: the word in the settings
    kind: str
    #: the header that carries the key
    key_header: str
    routes: tuple[Route, ...]
    #: headers of a request that pass; a name that ends with - stands for all that begin so
    request_headers: frozenset[str]
    #: headers of an answer that pass
    answer_headers: frozenset[str]
    #: names in a query that pass
    query: frozenset[str]


_REQUEST = frozenset({"accept", "content-type", "user-agent", "idempotency-key", "x-client-request-id", "x-stainless-"})
_ANSWER = frozenset(
    {"cache-control", "content-type", "date", "request-id", "retry-after", "retry-after-ms", "x-request-id"}
    | {"x-ratelimit-", "x-should-retry"}
)

ANTHROPIC = Dialect(
    kind="anthropic",
    key_header="x-api-key",
    routes=(
        Route(method="POST", path="/v1/messages", wire="messages"),
        Route(method="POST", path="/v1/messages/count_tokens"),
        Route(method="GET", path="/v1/models"),
    ),
    request_headers=_REQUEST | {"anthropic-beta", "anthropic-version", "x-app", "x-claude-code-"},
    answer_headers=_ANSWER | {"anthropic-ratelimit-"},
    query=frozenset({"after_id", "before_id", "beta", "limit"}),
)

#: base_url ends with /v1 or the like here, as OpenAI's own clients have it
OPENAI = Dialect(
    kind="openai",
    key_header="authorization",
    routes=(
        Route(method="POST", path="/responses", wire="responses"),
        Route(method="POST", path="/chat/completions", wire="chat"),
        Route(method="GET", path="/models"),
    ),
    request_headers=_REQUEST
    | {"conversation_id", "openai-beta", "originator", "session-id", "session_id", "thread-id", "version", "x-codex-"},
    answer_headers=_ANSWER | {"openai-model", "openai-processing-ms", "openai-version", "x-codex-"},
    query=frozenset({"client_version"}),
)

DIALECTS = {dialect.kind: dialect for dialect in (ANTHROPIC, OPENAI)}


def dialect_of(kind: str) -> Dialect:
    """Raises `SettingsError` for a word that is none."""
    if kind not in DIALECTS:
        raise SettingsError(reason=f"an upstream's kind is {' or '.join(sorted(DIALECTS))}, not {kind[:60]!r}.")
    return DIALECTS[kind]


#: error types by status, as the APIs themselves name them
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}
_OPENAI_TYPES = {401: "authentication_error", 402: "insufficient_quota", 429: "rate_limit_error"}


def error_body(dialect: Dialect | None, *, status: int, code: str, reason: str) -> dict[str, Any]:
    """An error as clients of this dialect read it; without a dialect, one that all of them can read."""
    fallback = "api_error" if status >= 500 else "invalid_request_error"
    if dialect is OPENAI:
        openai = {"message": reason, "type": _OPENAI_TYPES.get(status, fallback), "param": None, "code": code}
        return {"error": openai}
    error: dict[str, Any] = {"type": _ANTHROPIC_TYPES.get(status, fallback), "message": reason}
    if dialect is None:
        error |= {"param": None, "code": code}
    return {"type": "error", "error": error}
