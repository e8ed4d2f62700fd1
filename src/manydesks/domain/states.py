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


class JoinState(IntEnum):
    """What a message waits for that stands behind others: a step of a chain, the target of a join."""

    OPEN = 0
    COMPLETE = 1
    TIMED_OUT = 2
    BROKEN = 3


class PartState(IntEnum):
    """One of the messages that such a message waits for."""

    OPEN = 0
    ANSWERED = 1
    #: without an answer, but it may be tried again
    DEAD = 2
    #: it will never answer
    LOST = 3


class IllegalMove(ManyDesksError):
    """A {machine} cannot go from {before} to {after}."""


S = TypeVar("S", bound=IntEnum)

M, R, Q, J, P = MessageState, ResponseState, QuestionState, JoinState, PartState

MESSAGE_MOVES: Mapping[MessageState, frozenset[MessageState]] = {
    M.PENDING: frozenset({M.PROCESSING, M.HELD, M.CANCELLED, M.DEAD}),
    M.PROCESSING: frozenset({M.COMPLETED, M.PENDING, M.HELD, M.CANCELLED, M.DEAD}),
    M.HELD: frozenset({M.PENDING, M.CANCELLED, M.DEAD}),
    M.COMPLETED: frozenset(),
    M.CANCELLED: frozenset(),
    M.DEAD: frozenset({M.PENDING, M.CANCELLED}),
}

RESPONSE_MOVES: Mapping[ResponseState, frozenset[ResponseState]] = {
    # a client that fetches responses by itself acknowledges one without its being sent
    # of one that came out of a backup nobody knows whether it was sent since then
    R.PENDING: frozenset({R.SENDING, R.HELD, R.WITHDRAWN, R.DEAD, R.EXPIRED, R.ACKED, R.UNSURE}),
    R.SENDING: frozenset({R.ACKED, R.PENDING, R.UNSURE, R.DEAD}),
    R.HELD: frozenset({R.PENDING, R.WITHDRAWN, R.EXPIRED, R.ACKED, R.UNSURE}),
    R.UNSURE: frozenset({R.ACKED, R.PENDING, R.WITHDRAWN}),
    R.ACKED: frozenset(),
    R.WITHDRAWN: frozenset(),
    R.DEAD: frozenset({R.PENDING, R.WITHDRAWN, R.ACKED}),
    R.EXPIRED: frozenset({R.PENDING, R.WITHDRAWN, R.ACKED}),
}

QUESTION_MOVES: Mapping[QuestionState, frozenset[QuestionState]] = {
    Q.ASKED: frozenset({Q.ANSWERED, Q.EXPIRED, Q.WITHDRAWN}),
    Q.ANSWERED: frozenset(),
    Q.EXPIRED: frozenset(),
    Q.WITHDRAWN: frozenset(),
}

JOIN_MOVES: Mapping[JoinState, frozenset[JoinState]] = {
    J.OPEN: frozenset({J.COMPLETE, J.TIMED_OUT, J.BROKEN}),
    J.COMPLETE: frozenset(),
    J.TIMED_OUT: frozenset(),
    # what broke it is tried again, a person lets it go on without, or nobody does in time
    J.BROKEN: frozenset({J.OPEN, J.COMPLETE, J.TIMED_OUT}),
}

PART_MOVES: Mapping[PartState, frozenset[PartState]] = {
    P.OPEN: frozenset({P.ANSWERED, P.DEAD, P.LOST}),
    P.ANSWERED: frozenset(),
    P.DEAD: frozenset({P.OPEN, P.LOST}),
    P.LOST: frozenset(),
}

_MOVES: Mapping[type[IntEnum], Mapping[Any, frozenset[Any]]] = {
    MessageState: MESSAGE_MOVES,
    ResponseState: RESPONSE_MOVES,
    QuestionState: QUESTION_MOVES,
    JoinState: JOIN_MOVES,
    PartState: PART_MOVES,
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
