"""The proxy's own answers: what was refused, in a sentence for people and a status that programs act on.

A status of 408, 429 or 5xx may pass by itself; all others are final, and say so (`x-should-retry: false`): the same
again would be refused again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from manydesks.proxy.dialect import Dialect, error_body

#: names the refusal for our own programs at the desk
HEADER = "manydesks-refusal"

_PASSING = frozenset({408, 429})


class Refused(Exception):
    """This request is not forwarded, or its answer not handed on."""

    def __init__(self, status: int, code: str, reason: str, *, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        #: over_budget, not_open, …: one word that stays, whatever the sentence becomes
        self.code = code
        #: one sentence, without keys and without the upstream's address
        self.reason = reason
        self.retry_after = retry_after


class LineCut(Exception):
    """The connection to the desk is of no use any more: it left, or the answer broke off in the middle."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def answer_to(refused: Refused, dialect: Dialect | None) -> Answer:
    shape = error_body(dialect, status=refused.status, code=refused.code, reason=refused.reason)
    body = json.dumps(shape, ensure_ascii=False).encode("utf-8", "replace")
    headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
    headers.append((HEADER, refused.code))
    if refused.status < 500 and refused.status not in _PASSING:
        headers.append(("x-should-retry", "false"))
    if refused.retry_after is not None:
        headers.append(("retry-after", str(refused.retry_after)))
    return Answer(status=refused.status, headers=tuple(headers), body=body)
