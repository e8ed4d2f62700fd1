"""State machines: the states of a row, and the only moves between them.

States are integers whose order matters: what is still moving sorts before what has ended, so that "live" is one range
test in a partial index (`state <= n`; a list of values would cost ten times as much per write).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeVar

from manydesks.domain.errors import ManyDesksError


class MessageState(IntEnum):
    """A message on its way in."""

    PENDING = 0
    PROCESSING = 1
    HELD = 2
    COMPLETED = 3
    CANCELLED = 4
    DEAD = 5


class ResponseState(IntEnum):
    """A response on its way out."""

    PENDING = 0
    SENDING = 1
    HELD = 2
    UNSURE = 3
    ACKED = 4
    WITHDRAWN = 5
    DEAD = 6
    EXPIRED = 7


class QuestionState(IntEnum):
    """A question of an agent to a person."""

    ASKED = 0
    ANSWERED = 1
    EXPIRED = 2
    WITHDRAWN = 3


class IllegalMove(ManyDesksError):
    """A {machine} cannot go from {before} to {after}."""


S = TypeVar("S", bound=IntEnum)

M, R, Q = MessageState, ResponseState, QuestionState

MESSAGE_MOVES: Mapping[MessageState, frozenset[MessageState]] = {
    M.PENDING: frozenset({M.PROCESSING, M.HELD, M.CANCELLED, M.DEAD}),
    M.PROCESSING: frozenset({M.COMPLETED, M.PENDING, M.HELD, M.CANCELLED, M.DEAD}),
    M.HELD: frozenset({M.PENDING, M.CANCELLED, M.DEAD}),
    M.COMPLETED: frozenset(),
    M.CANCELLED: frozenset(),
    M.DEAD: frozenset({M.PENDING, M.CANCELLED}),
}

RESPONSE_MOVES: Mapping[ResponseState, frozenset[ResponseState]] = {
    R.PENDING: frozenset({R.SENDING, R.HELD, R.WITHDRAWN, R.DEAD, R.EXPIRED}),
    R.SENDING: frozenset({R.ACKED, R.PENDING, R.UNSURE, R.DEAD}),
    R.HELD: frozenset({R.PENDING, R.WITHDRAWN, R.EXPIRED}),
    R.UNSURE: frozenset({R.ACKED, R.PENDING, R.WITHDRAWN}),
    R.ACKED: frozenset(),
    R.WITHDRAWN: frozenset(),
    R.DEAD: frozenset({R.PENDING, R.WITHDRAWN}),
    R.EXPIRED: frozenset(),
}

QUESTION_MOVES: Mapping[QuestionState, frozenset[QuestionState]] = {
    Q.ASKED: frozenset({Q.ANSWERED, Q.EXPIRED, Q.WITHDRAWN}),
    Q.ANSWERED: frozenset(),
    Q.EXPIRED: frozenset(),
    Q.WITHDRAWN: frozenset(),
}

_MOVES: Mapping[type[IntEnum], Mapping[Any, frozenset[Any]]] = {
    MessageState: MESSAGE_MOVES,
    ResponseState: RESPONSE_MOVES,
    QuestionState: QUESTION_MOVES,
}

#: states at or above these have ended; a dead message may still be revived by hand
MESSAGE_ENDED = M.COMPLETED
RESPONSE_ENDED = R.ACKED


def word(state: IntEnum) -> str:
    """The readable name, as in the `status` column."""
    return state.name.lower()


def may_move(before: S, after: S) -> bool:
    return after in _MOVES[type(before)][before]


def advance(before: S, after: S) -> S:
    """`after`, if the machine allows the move; else IllegalMove."""
    if not may_move(before, after):
        raise IllegalMove(machine=type(before).__name__, before=word(before), after=word(after))
    return after
