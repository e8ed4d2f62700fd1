"""What callers hand in: checked before anything is written, one clear sentence each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import apsw

from manydesks.domain.errors import BadInput
from manydesks.queue.message import Message

#: ten years
LONGEST_SECONDS = 315_360_000
WORD_CHARACTERS = 200
PRIORITY = 2**31
MOST_ID = 2**63 - 1
#: lists in lists, and objects
DEEPEST = 200
#: of one transaction
MOST_BODIES = 100_000

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


def body_text(body: Any, most_bytes: int) -> str:
    """A body as JSON."""
    try:
        text = _encode(body)
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        # half a surrogate pair: JSON can carry it, UTF-8 cannot
        text = json.dumps(body, allow_nan=False)
        size = len(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"A body must be what JSON can carry: {error}.") from error
    if text.count("[") + text.count("{") > DEEPEST:
        _refuse_deep(body)
    if size > most_bytes:
        raise BadInput(f"A body may have {most_bytes} bytes as JSON; this one has {size}: send a reference instead.")
    return text


def _refuse_deep(body: Any) -> None:
    """What is written by one stack must be readable by another that is deeper in its work."""
    level = [body]
    for _ in range(DEEPEST):
        level = [part for value in level for part in _parts(value)]
        if not level:
            return
    raise BadInput(f"A body may have lists and objects {DEEPEST} deep; this one is deeper.")


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for part in value.values() if isinstance(part, dict | list | tuple)]
    return [part for part in value if isinstance(part, dict | list | tuple)] if isinstance(value, list | tuple) else []


def body_value(text: str) -> Any:
    try:
        return _decode(text)
    except ValueError as error:
        # nothing else is ever stored
        raise apsw.CorruptError(f"a body in it is not JSON ({error})") from error


def seconds_ms(value: object, name: str, *, least: float = 0) -> int:
    """Seconds as whole milliseconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput(f"{name} must be a number of seconds, not {value!r:.60}.")
    # not so for NaN either
    if not least <= value <= LONGEST_SECONDS:
        raise BadInput(f"{name} must be {least:g} to {LONGEST_SECONDS} seconds, not {value!r:.60}.")
    return math.ceil(value * 1000)


def whole(value: object, name: str, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadInput(f"{name} must be a whole number from {least} to {most}, not {value!r:.60}.")
    return value


def word(value: object, name: str) -> str:
    """A key, a lane or a queue's name."""
    if not isinstance(value, str) or not 0 < len(value) <= WORD_CHARACTERS or not value.isprintable():
        raise BadInput(f"{name} must be text of 1 to {WORD_CHARACTERS} printable characters, not {value!r:.60}.")
    return value


def job_id(value: object) -> int:
    return whole(value, "An id", least=1, most=MOST_ID)


def message(value: Message) -> Message:
    """What was received, as it was."""
    if not isinstance(value, Message):
        raise BadInput(f"A message must be one that was received, not {value!r:.60}.")
    for number in (value.id, value.attempt, value.fence):
        if type(number) is not int or not 0 < number <= MOST_ID:
            raise BadInput(f"A message has whole numbers from 1 on, not {number!r:.60}: give it as it was received.")
    return value


def queue_name(value: str) -> str:
    if "/" in word(value, "A queue's name"):
        raise BadInput(f"A queue's name must not have a '/' in it: {value!r:.60}.")
    return value


def messages(values: object) -> tuple[Message, ...]:
    if not isinstance(values, Iterable):
        raise BadInput(f"A batch is a list of messages that were received, not {values!r:.60}.")
    return tuple(map(message, values))
