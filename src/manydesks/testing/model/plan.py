"""What will be written to a client: decided as a whole before the first byte of it goes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from manydesks.testing.model.dialect import Dialect, Reply
from manydesks.testing.model.fault import Cut, Fail, Garble, Hang, Refuse
from manydesks.testing.model.sse import garbled, pack
from manydesks.testing.model.turn import Pace

Headers = tuple[tuple[str, str], ...]

#: `Plan.stands_before` for the status line
STATUS_LINE = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    status: int = 200
    headers: Headers = ()
    #: the events of a stream, or one body
    pieces: tuple[bytes, ...] = ()
    #: what the head announces; None: a stream, whose length nobody knows
    length: int | None = None
    #: False: not even the status line goes out
    head: bool = True
    #: how the connection ends: `whole` leaves it open for the next request
    ends: Literal["whole", "cut", "reset"] = "whole"
    #: it stands still before this piece, or before the status line, until it is released; None: nowhere
    stands_before: int | None = None
    #: what goes out every `ping_seconds` while it stands still
    ping: bytes = b""
    ping_seconds: float | None = None
    pace: Pace | None = None
    #: seconds before the status line
    delay: float = 0.0


def document(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Plan:
    """A JSON body in good HTTP."""
    body = pack(value)
    given = {"content-type": "application/json", **(headers or {})}
    return Plan(status=status, headers=tuple(given.items()), pieces=(body,), length=len(body))


def refusal(
    dialect: Dialect, status: int, token: str, message: str = "", headers: Iterable[tuple[str, str]] = ()
) -> Plan:
    words = message or _words(status)
    given = {**_request_id(token), **{name.lower(): value for name, value in headers}}
    return document(dialect.failure(status, words, token), status, given)


def answer(dialect: Dialect, reply: Reply) -> Plan:
    """The plan for a turn, with its fault."""
    plan = _undisturbed(dialect, reply)
    streams = reply.asked.stream
    match reply.turn.fault:
        case Refuse() as fault:
            plan = _refused(dialect, reply, fault)
        case Fail() as fault if not streams:
            plan = refusal(dialect, fault.status, reply.token, fault.message)
        case Fail() as fault:
            begun = plan.pieces[: fault.after_event]
            last = dialect.failed(reply, fault.status, fault.message or _words(fault.status), len(begun))
            plan = replace(plan, pieces=(*begun, last))
        case Garble() as fault if streams:
            # Not the last: that may be `[DONE]`, which is no JSON anyway.
            place = min(fault.event, len(plan.pieces) - 2)
            pieces = (*plan.pieces[:place], garbled(plan.pieces[place]), *plan.pieces[place + 1 :])
            plan = replace(plan, pieces=pieces)
        case Garble():
            half = _half(plan.pieces)
            plan = replace(plan, pieces=(half,), length=len(half))
        case Cut() as fault:
            plan = _cut(plan, fault)
        case Hang() as fault:
            place = STATUS_LINE if fault.after_event is None or not streams else fault.after_event
            plan = replace(plan, stands_before=place, ping=dialect.ping, ping_seconds=fault.ping_seconds)
        case None:
            pass
    return replace(plan, pace=reply.turn.pace, delay=reply.turn.delay)


def _undisturbed(dialect: Dialect, reply: Reply) -> Plan:
    if not reply.asked.stream:
        return document(dialect.whole(reply), headers=_request_id(reply.token))
    headers = {"content-type": "text/event-stream", "cache-control": "no-cache", **_request_id(reply.token)}
    return Plan(headers=tuple(headers.items()), pieces=tuple(dialect.events(reply)))


def _refused(dialect: Dialect, reply: Reply, fault: Refuse) -> Plan:
    if fault.body is None:
        return refusal(dialect, fault.status, reply.token, fault.message, fault.headers.items())
    body = fault.body.encode()
    headers = {"content-type": "text/html", **{name.lower(): value for name, value in fault.headers.items()}}
    return Plan(status=fault.status, headers=tuple(headers.items()), pieces=(body,), length=len(body))


def _cut(plan: Plan, fault: Cut) -> Plan:
    """What is left; the head still announces what should have come."""
    if fault.after_byte is not None:
        pieces = tuple(_first_bytes(plan.pieces, fault.after_byte))
    elif fault.after_event is None:
        pieces = ()
    else:
        pieces = plan.pieces[: fault.after_event] if plan.length is None else (_half(plan.pieces),)
    head = fault.after_byte is not None or fault.after_event is not None
    return replace(plan, pieces=pieces, head=head, ends="reset" if fault.reset else "cut")


def _first_bytes(pieces: Iterable[bytes], most: int) -> Iterable[bytes]:
    for piece in pieces:
        if most <= 0:
            return
        yield piece[:most]
        most -= len(piece)


def _half(pieces: Sequence[bytes]) -> bytes:
    [body] = pieces
    return body[: len(body) // 2]


def _words(status: int) -> str:
    return f"The script says {status}."


def _request_id(token: str) -> dict[str, str]:
    """Under the names of both companies; clients show it in their errors."""
    return {"request-id": f"req_{token}", "x-request-id": f"req_{token}"}
