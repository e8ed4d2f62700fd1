"""Why a call to a model failed, and whether it is worth another try."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from manydesks.domain.mail import Failure
from manydesks.runner.masking import masked
from manydesks.runner.providers.base import Usage
from manydesks.runner.providers.http_api.shape import count, parsed, table, text

#: the header by which the office's proxy marks its own refusals
REFUSAL = "manydesks-refusal"
#: of what an API says about an error, so much is repeated
MAX_WORDS = 1_000

#: errors within a stream have a name instead of a status: Anthropic's types, OpenAI's types and codes
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "invalid_api_key": 401,
    "model_not_found": 404,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "rate_limit_exceeded": 429,
    "requests": 429,
    "tokens": 429,
    "server_error": 500,
    "service_unavailable_error": 503,
}
_PASSING = frozenset({408, 409, 425, 429})
#: an account without money is not helped by another try, although OpenAI says 429
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
#: how APIs say that a prompt is longer than the model's context
_TOO_LONG = ("context_length_exceeded", "prompt is too long", "context length", "context window", "too many tokens")


class CallFailed(Exception):
    """A call gave no answer. Inner to this package: the turn ends with it as `Failed`."""

    def __init__(
        self,
        failure: Failure,
        reason: str,
        *,
        retry_after: float | None = None,
        too_long: bool = False,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(reason)
        self.failure = failure
        self.reason = reason
        self.retry_after = retry_after
        #: the prompt does not fit into the model's context
        self.too_long = too_long
        #: what the call has cost all the same, as far as it is known
        self.usage = usage


def transient(reason: str) -> CallFailed:
    return CallFailed("transient", reason)


def permanent(reason: str) -> CallFailed:
    return CallFailed("permanent", reason)


def from_answer(status: int, headers: Mapping[str, str], body: str, *, now_ms: int) -> CallFailed:
    """A status that is no success, with the head and the body that came with it."""
    error = _error(parsed(body))
    words = text(error.get("message")) or _plain(body)
    after = retry_after(headers, now_ms=now_ms)
    return classified(status, words, names=_names(error), retry_after=after, refusal=headers.get(REFUSAL))


def from_event(error: Any) -> CallFailed:
    """An error in the middle of a stream, which began as a success."""
    found = _error(error)
    names = _names(found)
    status = next((_STATUSES[name] for name in names if name in _STATUSES), None)
    if status is None:
        # some gateways put the number itself there
        code = count(found.get("code"))
        status = code if code is not None and 400 <= code <= 599 else 500
    return classified(status, text(found.get("message")), names=names)


def classified(
    status: int,
    words: str,
    *,
    names: tuple[str, ...] = (),
    retry_after: float | None = None,
    refusal: str | None = None,
) -> CallFailed:
    """`words` are the API's own; `refusal` is set when it was the office's proxy that spoke."""
    said = masked(" ".join(words.split())[:MAX_WORDS]) or "it gave no reason"
    reason = f"the model server answered {status}: {said}"
    if refusal is not None:
        # no model server has spoken: the proxy's sentence says who did what
        reason = said
    if status == 402:
        return CallFailed("refused", reason)
    if status in (401, 403) and refusal is None:
        return permanent(f"{reason} (set the key of this provider in secrets.toml, or another model or base_url)")
    if _NO_CREDIT.intersection(names):
        return permanent(f"{reason} (the account of this key has no credit)")
    if status in _PASSING or status >= 500:
        return CallFailed("transient", reason, retry_after=retry_after)
    lower = f"{' '.join(names)} {said}".lower()
    return CallFailed("permanent", reason, too_long=status in (400, 413) and any(word in lower for word in _TOO_LONG))


def retry_after(headers: Mapping[str, str], *, now_ms: int) -> float | None:
    """Seconds; None if the answer did not say, or in a way that cannot be read."""
    for name, unit in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(moment.timestamp() - now_ms / 1_000, 0.0)


def _error(value: Any) -> dict[str, Any]:
    """The error's table, wherever it lies; some servers say no more than a text."""
    outer = table(value)
    inner = outer.get("error", outer)
    if isinstance(inner, str):
        return {"message": inner}
    found = table(inner)
    # FastAPI and its like
    return found if found.get("message") or "detail" not in outer else {"message": str(outer["detail"])}


def _names(error: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for key in ("code", "type") if (name := text(error.get(key))))


def _plain(body: str) -> str:
    """A body that is no error of an API: the page of a gateway, most of the time."""
    return "" if body.lstrip().startswith("<") else body
