"""What waits for what: the rows behind chains and joins, the same for people's messages and agents' answers.

A message that waits is stored at once, held and outside its lane, with a row of `joins` and one of `join_parts` for
each message it waits for. What becomes of it is decided by `release`, in the transaction in which a part ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from manydesks.domain.routing import Target
from manydesks.domain.states import JoinState, PartState, advance, may_move
from manydesks.domain.waiting import Kind
from manydesks.store.ledger import OfficeTransaction

#: how long a message waits for those before it, unless the settings say otherwise
WAIT_MS = 24 * 3_600_000

_COLUMNS = "j.id, j.message, j.kind, j.state, j.wait_ms, j.deadline, j.told, j.ended_at"
OF_MESSAGE = f"select {_COLUMNS} from joins j where j.message = ?"
BY_ID = f"select {_COLUMNS} from joins j where j.id = ?"
#: those that have not ended, and wait for this message
THAT_WAIT = f"""
select {_COLUMNS} from join_parts p join joins j on j.id = p.join_id
where p.message = ? and j.ended_at is null order by j.id
"""
OVERDUE = f"select {_COLUMNS} from joins j where j.ended_at is null and j.deadline <= ? order by j.deadline limit 1"
#: when the time of the next one is over
NEXT = "select min(deadline) from joins where ended_at is null"
PARTS = "select message, state, reason from join_parts where join_id = ? order by place"
MARK = "update join_parts set state = ?, reason = ? where join_id = ? and message = ? and state = ?"
MOVE = "update joins set state = ?, ended_at = ? where id = ? and ended_at is null"
RENEW = "update joins set deadline = ? where id = ?"
#: something that it waits for may not begin: it waits itself, its budget holds it, or its agent (?2: the office) is
#: paused. What the loop guard holds counts: it is stopped for good, unless a person thinks otherwise
BLOCKED = """
select 1 from join_parts p join messages m on m.message_id = p.message left join agents a on a.id = m.agent
where p.join_id = ?1 and p.state = 0 and ((m.state = 2 and m.hold_reason in ('chain', 'join', 'budget'))
  or (m.state = 0 and (?2 or a.paused <> 0))) limit 1
"""
#: those that wait for a pending message: of one agent, or with null of anybody
FOR_PENDING = f"""
select {_COLUMNS} from joins j where j.ended_at is null and exists (
  select 1 from join_parts p join messages m on m.message_id = p.message
  where p.join_id = j.id and p.state = 0 and m.state = 0 and (?1 is null or m.agent = ?1))
"""

SHOWN = "select id, kind, status, deadline, ended_at from joins where message = ?"
SHOWN_PARTS = """
select p.message, m.agent, p.status, p.reason from join_parts p left join messages m on m.message_id = p.message
where p.join_id = ? order by p.place
"""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A message that was just stored: others may wait for it."""

    message_id: str
    agent: str
    hop: int
    #: the agents it came through
    chain: str


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What a message waits for."""

    id: str
    kind: Kind
    parts: tuple[Stored, ...]
    wait_ms: int
    #: a moment of steady time
    until: int

    @property
    def hop(self) -> int:
        """The message is one hand-off further than what it waits for."""
        return max(part.hop for part in self.parts) + 1

    @property
    def chain(self) -> str:
        """The way of the first that it waits for, and the agents of all."""
        return " ".join(filter(None, (self.parts[0].chain, *(part.agent for part in self.parts))))


@dataclass(frozen=True, kw_only=True)
class Join:
    """A row of `joins`."""

    id: str
    message: str
    kind: Kind
    state: JoinState
    wait_ms: int
    deadline: int
    #: the answers are in the message's text
    told: bool
    ended: bool


def in_order(
    tx: OfficeTransaction,
    targets: Sequence[Target],
    store: Callable[[Target, Wait | None], Stored],
    *,
    wait_ms: int,
) -> list[Stored]:
    """Store a message for each target, each with what it waits for; a target waits for earlier ones only."""
    done: list[Stored] = []
    for target in targets:
        wait = None
        if target.after:
            wait = Wait(
                id=tx.fresh_id("join", "joins"),
                kind="join" if target.join else "chain",
                parts=tuple(done[index] for index in target.after),
                wait_ms=wait_ms,
                until=tx.steady + wait_ms,
            )
        done.append(store(target, wait))
    return done


def begin(tx: OfficeTransaction, wait: Wait, message_id: str, body: int) -> None:
    """The rows of a message that waits from now on; `body` is its own text."""
    tx.insert(
        "joins",
        {
            "id": wait.id,
            "message": message_id,
            "kind": wait.kind,
            "state": int(JoinState.OPEN),
            "wait_ms": wait.wait_ms,
            "deadline": wait.until,
            "body": body,
            "created_at": tx.now,
        },
    )
    for place, part in enumerate(wait.parts):
        tx.insert("join_parts", {"join_id": wait.id, "place": place, "message": part.message_id})


def of_message(tx: OfficeTransaction, message_id: str) -> Join | None:
    """What the message waits for, or has waited for."""
    return _join(tx.one(OF_MESSAGE, (message_id,)))


def by_id(tx: OfficeTransaction, id: str) -> Join | None:
    return _join(tx.one(BY_ID, (id,)))


def that_wait(tx: OfficeTransaction, message_id: str) -> list[Join]:
    """Whoever still waits for this message."""
    return [found for row in tx.all(THAT_WAIT, (message_id,)) if (found := _join(row)) is not None]


def overdue(tx: OfficeTransaction) -> Join | None:
    """The one whose time has been over for longest."""
    return _join(tx.one(OVERDUE, (tx.steady,)))


def parts(tx: OfficeTransaction, join: Join) -> list[tuple[str, PartState, str]]:
    """(message id, state, reason), in the order in which they are told."""
    return [(message, PartState(state), reason or "") for message, state, reason in tx.all(PARTS, (join.id,))]


def mark(tx: OfficeTransaction, join: Join, message_id: str, after: PartState, reason: str) -> bool:
    """A part has moved. False: it has not, it was there before or has ended for good."""
    before = next(state for message, state, _ in parts(tx, join) if message == message_id)
    if not may_move(before, after):
        return False
    tx.run(MARK, (int(after), reason or None, join.id, message_id, int(before)))
    return True


def move(tx: OfficeTransaction, join: Join, after: JoinState, *, ended: bool) -> None:
    """`ended`: it waits for nothing any more. Breaking for good, after it has broken, is no other state."""
    if after is not join.state:
        advance(join.state, after)
    tx.run(MOVE, (int(after), tx.now if ended else None, join.id))


def renew(tx: OfficeTransaction, join: Join) -> int:
    """Its time begins anew; until when."""
    until = tx.steady + join.wait_ms
    tx.run(RENEW, (until, join.id))
    tx.run("update messages set hold_until = ? where message_id = ? and hold_ref = ?", (until, join.message, join.id))
    return until


def is_blocked(tx: OfficeTransaction, join: Join, *, office_paused: bool) -> bool:
    """Whether something that it waits for may not begin, so that its time does not count."""
    return tx.one(BLOCKED, (join.id, int(office_paused))) is not None


def may_begin(tx: OfficeTransaction, agent: str | None = None) -> None:
    """The messages of an agent, or of all, may begin from now on: whoever waits for one has its whole time again."""
    for row in tx.all(FOR_PENDING, (agent,)):
        if (join := _join(row)) is not None:
            renew(tx, join)


def shown(read: Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]], message_id: str) -> dict[str, Any] | None:
    """What a message waits for, or has waited for, as readers show it; None: nothing."""
    for id, kind, status, deadline, ended_at in read(SHOWN, (message_id,)):
        names = ("messageId", "agent", "status", "reason")
        return {
            "id": id,
            "kind": kind,
            "status": status,
            "until": deadline if ended_at is None else None,
            "parts": [dict(zip(names, row, strict=True)) for row in read(SHOWN_PARTS, (id,))],
        }
    return None


def _join(row: tuple[Any, ...] | None) -> Join | None:
    if row is None:
        return None
    id, message, kind, state, wait_ms, deadline, told, ended_at = row
    return Join(
        id=id,
        message=message,
        kind=kind,
        state=JoinState(state),
        wait_ms=wait_ms,
        deadline=deadline,
        told=bool(told),
        ended=ended_at is not None,
    )
