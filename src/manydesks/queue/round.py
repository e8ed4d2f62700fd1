"""One round of a processor: settle what has ended, take what is due. One transaction, however much it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from manydesks.queue import jobs
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.message import Message
from manydesks.queue.operations import Operation, Operations

LEFT = "select retry_count, last_error from jobs where id = ? and fence = ? and state <> 1"


class Permanent(Exception):
    """Raised by a handler: another attempt would fail the same, so the job is dead at once."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A handler has come back."""

    message: Message
    #: what it raised
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class Outcome:
    taken: list[Message]
    #: settled too late: somebody else has them
    lost: list[Message]
    #: when to look again, whatever happens
    wait_ms: int | None


def round_of(ops: Operations, ended: Sequence[Ended], free: int) -> Operation[Outcome]:
    settle = [(end.message, _settling(ops, end)) for end in ended]

    def play(tx: JobsTransaction) -> Outcome:
        lost = [message for message, operation in settle if not operation(tx) and not _has_settled(tx, message)]
        # a lane is worked on in order, so a processor has one job of it at a time
        taken = jobs.receive(tx, ops.terms, free, per_lane=1) if free else []
        return Outcome(taken, lost, jobs.next_due(tx) if len(taken) < free else None)

    return play


def _settling(ops: Operations, end: Ended) -> Operation[bool]:
    if end.error is None:
        return ops.complete(end.message)
    reason = _said(end.error)
    return ops.fail(end.message, reason, None, isinstance(end.error, Permanent))


def _has_settled(tx: JobsTransaction, message: Message) -> bool:
    """Whether the handler did so itself, in a transaction of its own: the last fence on the job is ours, and it was
    not the end of the lease that took it away."""
    found = tx.one(LEFT, (message.id, message.fence))
    return found is not None and found != (message.attempt, jobs.LEASE_OVER)


def _said(error: BaseException) -> str:
    """In one line; an exception that cannot even say what it is must not end the processor."""
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception as worse:  # noqa: BLE001 - its words are lost, and that is said
        words = f"(its words are lost: {type(worse).__name__})"
    return f"{kind}: {words}" if words else kind
