"""What went wrong, and whether trying again may help. Pure: from what `claude` said, to a verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.domain.mail import Failure
from manydesks.runner.masking import masked

MAX_REASON = 2_000

INSTALL = (
    "the program `claude` is not installed: `pip install claude-agent-sdk` (it is inside), or "
    "`npm install -g @anthropic-ai/claude-code`, or set the provider's option `program`"
)

_LOGIN = re.compile(r"(?i)not logged in|please run /login|invalid api key|failed to authenticate|oauth token")
_ROOT = "cannot be used with root/sudo privileges"
_LOST = "No conversation found with session ID"
_TOO_LONG = re.compile(r"(?i)prompt is too long|request too large|context (?:window|limit)")
_TOO_OLD = re.compile(r"unknown option '?(--[a-z-]+)")
#: how the office's proxy begins the sentence in which it says that no model server has answered
_UNANSWERED = re.compile(r"The upstream '[^']{1,64}' (?:could not|cannot|did not|broke off|answered in)")
#: of the statuses from 400 to 499, those that pass by themselves
_PASSING = frozenset({408, 409, 425, 429})
#: the program's own pause before its first repetition, at most; each later one is twice as long
_OWN_PAUSE = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    failure: Failure
    reason: str
    #: seconds, if the service asked for them
    retry_after: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """claude said that it repeats a call."""

    status: int | None
    #: from 1
    attempt: int
    #: seconds until it does
    delay: float

    @property
    def asked_for(self) -> float | None:
        """The pause if the service asked for it: it is longer than the program would make by itself."""
        return self.delay if self.delay > _OWN_PAUSE * 2 ** (self.attempt - 1) else None


def retry_of(line: Mapping[str, Any]) -> Retry | None:
    """The `api_retry` that this line is."""
    if line.get("type") != "system" or line.get("subtype") != "api_retry":
        return None
    status, attempt, delay = line.get("error_status"), line.get("attempt"), line.get("retry_delay_ms")
    return Retry(
        status=status if type(status) is int else None,
        attempt=attempt if type(attempt) is int and 1 <= attempt <= 100 else 1,
        delay=max(float(delay), 0.0) / 1000 if isinstance(delay, int | float) else 0.0,
    )


def is_lost(line: Mapping[str, Any]) -> bool:
    """This line says that the conversation to be gone on with is not there."""
    return line.get("type") == "result" and _LOST in _words(line)


def of_result(result: Mapping[str, Any], retry: Retry | None) -> Verdict | None:
    """The verdict on a result; None: it is an answer. `subtype` says success also of failures, so it counts last."""
    subtype = result.get("subtype")
    if result.get("is_error") is not True and subtype == "success":
        return None
    words, status = _words(result), result.get("api_error_status")
    if type(status) is int:
        return _of_status(status, words, retry)
    if _LOGIN.search(words):
        return _verdict("permanent", f"the model's service does not accept the office's key: {words}")
    if _TOO_LONG.search(words):
        return _verdict("permanent", f"claude cannot take it: {words}")
    if result.get("terminal_reason") == "api_error":
        return _verdict("transient", f"the model could not be reached: {words}")
    if subtype in ("error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries"):
        return _verdict("permanent", f"claude gave up ({subtype}): {words}")
    return _verdict("transient", f"claude failed ({subtype}): {words}")


def of_end(code: int, tail: str, error: str | None) -> Verdict:
    """The process ended before its result. `error` is what it said in an earlier result of this turn, if anything."""
    words = "; ".join(part for part in (error, tail) if part)
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    said = f": {words}" if words else ", and said nothing"
    if _ROOT in words:
        why = "claude refuses to run freely as root outside a sandbox: run the office as another user, or in a sandbox"
        return _verdict("permanent", why)
    if old := _TOO_OLD.search(words):
        return _verdict("permanent", f"this claude is too old, it does not know {old[1]}: update it")
    if _LOGIN.search(words):
        return _verdict("permanent", f"claude has no way to a model{said}")
    return _verdict("transient", f"claude ended in the middle of its turn, {how}{said}")


def _of_status(status: int, words: str, retry: Retry | None) -> Verdict:
    if status in (401, 403):
        return _verdict("permanent", f"the model's service does not accept the office's key ({status}): {words}")
    if status == 402:
        return _verdict("refused", f"the office may not spend now: {words}")
    if status in _PASSING or status >= 500:
        known = retry.asked_for if retry is not None and retry.status == status else None
        if _UNANSWERED.search(words):
            return _verdict("transient", f"the model could not be reached: {words}", known)
        return _verdict("transient", f"the model's service answered {status}: {words}", known)
    return _verdict("permanent", f"the model's service refused the request ({status}): {words}")


def _verdict(failure: Failure, reason: str, retry_after: float | None = None) -> Verdict:
    reason = " ".join(masked(reason).split())
    if len(reason) > MAX_REASON:
        reason = reason[: MAX_REASON - 1] + "…"
    return Verdict(failure=failure, reason=reason, retry_after=retry_after)


def _words(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    said = [result.get("result"), *(errors if isinstance(errors, list) else [])]
    return "; ".join(part for part in said if isinstance(part, str) and part) or "it gave no reason"
