"""What a desk may write: checked by the desk before it writes and by the host for every row that it reads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from manydesks.domain.ids import is_public_id
from manydesks.domain.mail import ACK_STATUSES, FAILURES, KINDS, STEP_TYPES, Ack, Content, Outbound, Step

#: of a row that the desk writes
MAX_CONTENT = 1 << 20
#: of a message to the desk: the longest that settings allow, 1 MiB, with every character escaped as six
MAX_INBOUND = 8 << 20
MAX_DEPTH = 32
MAX_REASON = 4_000
MAX_STATE = 64
MAX_STATE_VALUE = 16_384
MAX_INTEGER = 2**63 - 1

#: 9999-12-31: a moment beyond it cannot be shown to anybody
MAX_MOMENT = 253_402_300_799_999
#: a provider that asks for more than a month of patience has failed for good
MAX_RETRY_AFTER = 31 * 86_400

DESTINATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@#-]{0,126}")
STATE_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
EPOCH = re.compile(r"[0-9a-f]{16,64}")


class RowError(ValueError):
    """One row is not what a desk may write. Inner to the mailbox: its verbs raise `BadInput` or `MailboxRefused`."""


def outbound(row: Outbound) -> None:
    _id(row.id, "id")
    _id(row.run, "run")
    _integer(row.fence, "fence")
    if row.in_reply_to is not None:
        _id(row.in_reply_to, "in_reply_to")
    _moment(row.at, "at")
    if row.deliver_after is not None:
        _moment(row.deliver_after, "deliver_after")
    _one_of(row.kind, KINDS, "kind")
    if row.destination is not None and not _matches(DESTINATION, row.destination):
        raise RowError("destination is not a name")


def ack(row: Ack) -> None:
    _id(row.message, "message")
    _id(row.run, "run")
    _integer(row.fence, "fence")
    _moment(row.at, "at")
    _one_of(row.status, ACK_STATUSES, "status")
    if row.status == "failed":
        _one_of(row.failure, FAILURES, "class")
    elif row.failure is not None:
        raise RowError(f"an ack that is {row.status} has no class")
    # Whatever its declared type: a row that was read may hold anything.
    reason: Any = row.reason
    if reason is not None:
        if not isinstance(reason, str) or len(reason) > MAX_REASON:
            raise RowError(f"reason is not a text of at most {MAX_REASON} characters")
        _encodable(reason)
    wait: Any = row.retry_after
    if wait is not None and (type(wait) not in (int, float) or not 0 <= wait <= MAX_RETRY_AFTER):
        raise RowError(f"retry_after is not a number of seconds from 0 to {MAX_RETRY_AFTER}")


def step(row: Step) -> None:
    _id(row.run, "run")
    _moment(row.at, "at")
    _one_of(row.type, STEP_TYPES, "type")


def state(pairs: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """The desk's proposals, checked."""
    checked: dict[str, str] = {}
    for key, value in pairs:
        if not _matches(STATE_KEY, key):
            raise RowError("a key of state is not a lowercase name of at most 64 characters")
        if not isinstance(value, str) or len(value) > MAX_STATE_VALUE:
            raise RowError(f"state '{key}' is not a text of at most {MAX_STATE_VALUE} characters")
        _encodable(value)
        checked[key] = value
        if len(checked) > MAX_STATE:
            raise RowError(f"state has more than {MAX_STATE} keys")
    return checked


def epoch(value: Any) -> str:
    if not _matches(EPOCH, value):
        raise RowError("the epoch is not 16 to 64 hexadecimal digits")
    return str(value)


def pack(content: Content, limit: int = MAX_CONTENT) -> str:
    """Content as the JSON text of a row."""
    try:
        text = json.dumps(_plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"content cannot be written as JSON: {error}") from None
    unpack(text, limit)
    return text


def unpack(text: Any, limit: int = MAX_CONTENT) -> dict[str, Any]:
    """The JSON text of a row as content: an object, not too large, not too deep, free of half characters."""
    if not isinstance(text, str):
        raise RowError("content is not text")
    if len(text) > limit or (not text.isascii() and len(_encodable(text)) > limit):
        raise RowError(f"content is larger than {limit} bytes")
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise RowError("content is not JSON") from None
    if not isinstance(value, dict):
        raise RowError("content is not a JSON object")
    _walk(value)
    return value


def _walk(value: Any) -> None:
    layer: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in layer:
            if isinstance(item, str):
                _encodable(item)
            elif isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, float) and not math.isfinite(item):  # 1e999 is valid JSON and no number
                raise RowError("content holds a number that is too large")
        if not below:
            return
        layer = below
    raise RowError(f"content is nested deeper than {MAX_DEPTH} levels")


def _plain(value: Any) -> Any:
    """Mappings and tuples as the dicts and lists that JSON knows."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _encodable(text: str) -> bytes:
    # half a surrogate pair, `\ud800` in JSON, is a str that no file, socket or database takes
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RowError("a text holds half a character") from None


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _id(value: Any, name: str) -> None:
    if not isinstance(value, str) or not is_public_id(value):
        raise RowError(f"{name} is not a public id")


def _integer(value: Any, name: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INTEGER:
        raise RowError(f"{name} is not a whole number from 0")


def _moment(value: Any, name: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_MOMENT:
        raise RowError(f"{name} is not a moment in milliseconds")


def _one_of(value: Any, allowed: tuple[str, ...], name: str) -> None:
    if value not in allowed:
        raise RowError(f"{name} is not one of {', '.join(allowed)}")
