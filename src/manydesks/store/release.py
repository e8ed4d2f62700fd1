"""What becomes of messages that wait for others: let go on, broken, given up, out of time.

Everything here happens in the transaction in which a part ends or a moment comes, so no crash can lie between the two.

A chain goes on when every message before it was answered. One that died breaks it: the step stays held, its sender is
told, and if the dead one is tried again and answers, the chain goes on. One that was cancelled, or refused with an
answer, ends it. A join goes on when nothing is left to wait for. What waits for a broken step counts it as failed for
as long as it is broken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from manydesks.domain.attachment import MAX_FILES
from manydesks.domain.states import JoinState, MessageState, PartState
from manydesks.domain.waiting import Part, one_line, told, verdict
from manydesks.store import waits
from manydesks.store.accept import MESSAGES, remember
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.pausing import is_paused
from manydesks.store.respond import origin, store_response
from manydesks.store.retention import free_body
from manydesks.store.said import said
from manydesks.store.waits import Join

#: reasons for which a message is held that end when its parts do
WAITING = frozenset({"chain", "join"})
#: how many deadlines one transaction looks after
SWEEP = 100

_HELD = """
select id, hold_reason, body, files, agent, channel, coalesce(from_agent, sender) from messages where message_id = ?
"""
#: the run whose end it was that let the message go
_LAST_PART = """
select m.run from join_parts p join messages m on m.message_id = p.message
where p.join_id = ? order by m.updated_at desc, m.id desc limit 1
"""
_AGENT = "select agent from messages where message_id = ?"
_TEXT = "select text from bodies where id = ?"
_LET_GO = "update messages set hold_reason = null, hold_ref = null, hold_until = null, last_error = null where id = ?"
_EXPLAIN = "update messages set last_error = ?, updated_at = ? where id = ?"
_TELL = "update messages set body = ?, files = ? where id = ?"


def message_ended(tx: OfficeTransaction, message: Mapping[str, Any], *, well: bool, reason: str) -> None:
    """`message` is a row (`ORIGIN`) that has its last state by now: whoever waits for it goes on, or does not."""
    own = waits.of_message(tx, message["message_id"])
    if own is not None and not own.ended:
        # it was given up while it waited
        waits.move(tx, own, JoinState.BROKEN, ended=True)
    state = PartState.ANSWERED
    if not well:
        # asked anew: the caller may have read the row before it moved
        is_dead = origin(tx, message["message_id"])["state"] == MessageState.DEAD
        state = PartState.DEAD if is_dead else PartState.LOST
    _part_moved(tx, message["message_id"], state, reason)


def revived(tx: OfficeTransaction, message_id: str) -> None:
    """A dead message gets new attempts: a step that was out of time has what there is, who waits for it waits again."""
    own = waits.of_message(tx, message_id)
    if own is not None and not own.told:
        _tell(tx, own, _held(tx, message_id))
    its_turn(tx, message_id)
    _part_moved(tx, message_id, PartState.OPEN, "")


def let_go(tx: OfficeTransaction, message_id: str, *, actor: str) -> bool:
    """A person lets a held message go on. False: it waits for nobody, and this changed nothing.

    One that waits runs at once with what there is; one that was held for another reason goes back to waiting.
    """
    join = waits.of_message(tx, message_id)
    if join is None or join.ended:
        return False
    if _held(tx, message_id).reason in WAITING:
        _release(tx, join, JoinState.COMPLETE, actor=actor)
        return True
    _hold(tx, join, _missing(tx, join) if join.state is JoinState.BROKEN else None, actor=actor)
    return True


def its_turn(tx: OfficeTransaction, message_id: str) -> None:
    """It may begin only now: nobody behind it has waited in vain yet, also where it counted as broken."""
    for behind in waits.that_wait(tx, message_id):
        waits.renew(tx, behind)


def expire(tx: OfficeTransaction) -> None:
    """Those whose time is over: a join goes on with what there is, a step of a chain is dead.

    Not while something that they wait for may not begin; their time counts anew as soon as it may.
    """
    for _ in range(SWEEP):
        join = waits.overdue(tx)
        if join is None:
            return
        if waits.is_blocked(tx, join, office_paused=is_paused(tx)):
            waits.renew(tx, join)
        elif join.kind == "join":
            _release(tx, join, JoinState.TIMED_OUT)
        else:
            _die(tx, join)


def _part_moved(tx: OfficeTransaction, message_id: str, state: PartState, reason: str, *, tell: bool = True) -> None:
    for join in waits.that_wait(tx, message_id):
        if waits.mark(tx, join, message_id, state, reason):
            _look(tx, join, tell=tell)


def _look(tx: OfficeTransaction, join: Join, *, tell: bool) -> None:
    """One of its parts has moved."""
    match verdict(join.kind, [state for _, state, _ in waits.parts(tx, join)]):
        case "go":
            _release(tx, join, JoinState.COMPLETE)
        case "broken" if join.state is JoinState.OPEN:
            _break(tx, join, tell=tell)
        case "over":
            _give_up(tx, join, tell=tell)
        case "wait" if join.state is JoinState.BROKEN:
            _mend(tx, join)
        case _:
            pass


def _release(tx: OfficeTransaction, join: Join, state: JoinState, *, actor: str | None = None) -> None:
    """The message has waited long enough: it is told every answer, and enters its lane."""
    waits.move(tx, join, state, ended=True)
    held = _held(tx, join.message)
    body = _tell(tx, join, held)
    if held.reason not in WAITING:
        return  # the loop guard's, until a person lets it go on
    tx.run(_LET_GO, (held.row,))
    MESSAGES.enter(tx, held.row)
    message = origin(tx, join.message)
    last = tx.one(_LAST_PART, (join.id,)) if actor is None else None
    tx.event("message_released", **_about(message), run=last[0] if last else None, body=body, reason=join.kind,
             ref=join.id, outcome=state.name.lower(), actor=actor)  # fmt: skip
    its_turn(tx, join.message)
    _part_moved(tx, join.message, PartState.OPEN, "")


def _break(tx: OfficeTransaction, join: Join, *, tell: bool) -> None:
    waits.move(tx, join, JoinState.BROKEN, ended=False)
    why = _explain(tx, join)
    message = origin(tx, join.message)
    if tell:
        store_response(tx, message, f"{message['agent']} was not asked yet: {why}", run=None, operation="notice")
    _part_moved(tx, join.message, PartState.DEAD, why, tell=False)


def _mend(tx: OfficeTransaction, join: Join) -> None:
    """What broke it is tried again, and its time begins anew."""
    waits.move(tx, join, JoinState.OPEN, ended=False)
    waits.renew(tx, join)
    if _held(tx, join.message).reason in WAITING:
        _hold(tx, join, None)
    _part_moved(tx, join.message, PartState.OPEN, "")


def _give_up(tx: OfficeTransaction, join: Join, *, tell: bool) -> None:
    """It waits for something that will never come."""
    waits.move(tx, join, JoinState.BROKEN, ended=True)
    held = _held(tx, join.message)
    why = _missing(tx, join)
    MESSAGES.remove(tx, held.row, MessageState.CANCELLED)
    tx.run(_EXPLAIN, (why, tx.now, held.row))
    message = origin(tx, join.message)
    tx.event("message_cancelled", **_about(message), reason=why)
    if tell:
        store_response(tx, message, f"{message['agent']} will not be asked: {why}", run=None, operation="notice")
    _part_moved(tx, join.message, PartState.LOST, why, tell=False)


def _die(tx: OfficeTransaction, join: Join) -> None:
    waits.move(tx, join, JoinState.TIMED_OUT, ended=True)
    held = _held(tx, join.message)
    why = f"it waited {_duration(join.wait_ms)} in vain. {_missing(tx, join)}"
    MESSAGES.remove(tx, held.row, MessageState.DEAD)
    tx.run(_LET_GO, (held.row,))
    tx.run(_EXPLAIN, (why, tx.now, held.row))
    message = origin(tx, join.message)
    tx.event("message_dead", **_about(message), attempt=0, reason=why)
    text = f"{message['agent']} was not asked: {why} (dead letter {join.message})"
    store_response(tx, message, text, run=None, operation="notice")
    _part_moved(tx, join.message, PartState.DEAD, why)


class _Held(NamedTuple):
    """The waiting message's own row."""

    row: int
    reason: str | None
    body: int
    files: str | None
    agent: str
    channel: str
    sender: str


def _held(tx: OfficeTransaction, message_id: str) -> _Held:
    found = tx.one(_HELD, (message_id,))
    if found is None:
        raise LookupError(f"no message {message_id}")
    return _Held(*found)


def _hold(tx: OfficeTransaction, join: Join, detail: str | None, *, actor: str | None = None) -> None:
    """It waits, from now on or again; `detail` says in words for what."""
    now = waits.by_id(tx, join.id)
    assert now is not None
    tx.run(
        "update messages set hold_reason = ?, hold_ref = ?, hold_until = ?, last_error = ?, updated_at = ? "
        "where message_id = ?",
        (join.kind, join.id, now.deadline, detail, tx.now, join.message),
    )
    tx.event("message_held", **_about(origin(tx, join.message)), reason=join.kind, ref=join.id, until=now.deadline,
             detail=detail, actor=actor)  # fmt: skip


def _explain(tx: OfficeTransaction, join: Join) -> str:
    """Say in the message's row why its chain does not go on."""
    why = _missing(tx, join)
    if _held(tx, join.message).reason in WAITING:
        _hold(tx, join, why)
    return why


def _missing(tx: OfficeTransaction, join: Join) -> str:
    """A sentence on the first of the parts that has not answered, the worst first."""
    found = [(state, message, reason) for message, state, reason in waits.parts(tx, join)]
    state, message, reason = max(found, key=lambda part: (part[0] is not PartState.ANSWERED, part[0]))
    agent = _agent(tx, message)
    because = f": {one_line(reason).rstrip('.')}" if reason else ""
    if state is PartState.DEAD:
        return f"@{agent} could not answer before it{because}. It goes on if {message} is tried again and answered."
    if state is PartState.LOST:
        return f"@{agent} did not answer before it{because}."
    return f"@{agent} has not answered {message} yet."


def _tell(tx: OfficeTransaction, join: Join, held: _Held) -> int:
    """Add every answer to the message's text, and the files that came with them; the new text's body."""
    known: list[Part] = []
    files: list[dict[str, Any]] = json.loads(held.files or "[]")
    names = {file["name"] for file in files}
    for message_id, state, reason in waits.parts(tx, join):
        agent = _agent(tx, message_id)
        text = ""
        if state is PartState.ANSWERED:
            text, brought = said(tx, message_id)
            for file in brought:
                # two agents may call theirs the same
                name = file["name"] if file["name"] not in names else f"{agent}-{file['name']}"
                if name not in names and len(files) < MAX_FILES:
                    names.add(name)
                    files.append({**file, "name": name})
        known.append(Part(agent=agent, message_id=message_id, state=state, said=text, reason=reason))
    own = tx.one(_TEXT, (held.body,))
    body = tx.body(told(own[0] if own else "", known))
    tx.run(_TELL, (body, json.dumps(files, ensure_ascii=False) if files else None, held.row))
    # an edited one: the message's own text stays with the join
    free_body(tx, held.body)
    tx.run("update joins set told = 1 where id = ?", (join.id,))
    remember(tx, held.agent, body, channel=held.channel, sender=held.sender, message_id=join.message)
    return body


def _agent(tx: OfficeTransaction, message_id: str) -> str:
    found = tx.one(_AGENT, (message_id,))
    return str(found[0]) if found else "nobody"


def _about(message: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trace": message["trace"],
        "message": message["message_id"],
        "session": message["session"],
        "agent": message["agent"],
    }


def _duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
