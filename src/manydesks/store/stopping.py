"""Messages that shall not go on: one, those of a run, of a lane, of a trace, of an agent, or all of them.

A message that has not begun never will. One that runs is cancelled in the same instant, whatever its desk still says:
its claim stays, so that nobody else sits down there, until the host has ended the run, and the run's row says that it
is being stopped (`outcome`, while `ended_at` is null). Whoever ends it then, the host or the next start, gives back the
other messages of the run, uncounted.
"""

from __future__ import annotations

from dataclasses import dataclass

from manydesks.domain.errors import UnknownMessage, WrongState
from manydesks.domain.states import MessageState, word
from manydesks.store.accept import MESSAGES
from manydesks.store.agents import get_agent
from manydesks.store.endings import message_ended
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.outcome import STOPPED, find_run
from manydesks.store.respond import origin, withdraw

#: messages that one transaction cancels: nobody waits long for the writer
STEP = 500

#: (session, fence): what the host has to end
Run = tuple[str, int]

_ONE = "select id from messages where message_id = ?"
_ROW = "select message_id, state, trace, agent, session, fence from messages where id = ?"
_UNENDED = f"state in ({int(MessageState.PENDING)}, {int(MessageState.PROCESSING)}, {int(MessageState.HELD)})"
#: what runs first: it must not begin anything more while the rest is cancelled
_STATES = (
    ("messages_claim", "state = 1"),
    ("messages_held", "state = 2"),
    ("messages_lane", "state <= 1 and state = 0"),
)


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """What one transaction did."""

    #: messages that are cancelled now, and were not before
    messages: int = 0
    #: runs that have to be ended
    runs: tuple[Run, ...] = ()
    #: messages that run, and were left alone because there is no host to end their runs
    left: int = 0
    #: there may be others to cancel: ask again
    more: bool = False


def cancel(tx: OfficeTransaction, id: str, *, host: bool, actor: str = "owner") -> Cancelled:
    """What has this id shall not go on: a message, a run, a session (its lane) or a trace.

    `host`: there is one to end runs. Cancelling again changes nothing. Raises UnknownMessage, and WrongState for what
    has ended otherwise, or runs where no host is.
    """
    found = tx.one(_ONE, (id,))
    if found is not None:
        return _message(tx, found[0], host=host, actor=actor)
    run = tx.one("select fence, ended_at, outcome from runs where id = ?", (id,))
    if run is not None:
        fence, ended, outcome = run
        if ended is not None and outcome != STOPPED:
            raise WrongState(
                what=f"The run '{id}'", status=f"over ({outcome})", allowed="one under way", act="cancelled"
            )
        rows = [row for row, _ in MESSAGES.members(tx, fence)]
        if rows and not host:
            raise WrongState(_NO_HOST.format(what=f"The run '{id}'"))
        return _all(tx, rows, host=host, actor=actor)
    if tx.one("select 1 from sessions where id = ?", (id,)) is not None:
        return _some(tx, "session = ?", (id,), host=host, actor=actor)
    if tx.one("select 1 from arrivals where trace = ?", (id,)) is not None:
        rows = [row for (row,) in tx.all(f"select id from messages where trace = ? and {_UNENDED} limit ?", (id, STEP))]
        return _all(tx, rows, host=host, actor=actor)
    raise UnknownMessage(f"There is no message, run, session or trace '{id}'.")


def cancel_all(tx: OfficeTransaction, agent: str | None, *, host: bool, actor: str = "owner") -> Cancelled:
    """Everything of this agent, or of all, that has not ended; a step of it."""
    if agent is None:
        return _some(tx, "1", (), host=host, actor=actor)
    get_agent(tx, agent)
    return _some(tx, "agent = ?", (agent,), host=host, actor=actor)


def _some(tx: OfficeTransaction, which: str, values: tuple[str, ...], *, host: bool, actor: str) -> Cancelled:
    rows: list[int] = []
    for index, state in _STATES:
        sql = f"select id from messages indexed by {index} where {state} and {which} limit ?"
        rows += [row for (row,) in tx.all(sql, (*values, STEP))]
    return _all(tx, rows, host=host, actor=actor)


def _all(tx: OfficeTransaction, rows: list[int], *, host: bool, actor: str) -> Cancelled:
    done, left, runs = 0, 0, list[Run]()
    for row in rows:
        message_id, state, trace, agent, session, fence = _read(tx, row)
        if state == MessageState.PROCESSING and not host:
            left += 1
        elif (ended := _end(tx, row, message_id, state, trace, agent, session, fence, actor)) is not None:
            done += 1
            runs += [run for run in ended if run not in runs]
    return Cancelled(messages=done, runs=tuple(runs), left=left, more=done > 0)


def _message(tx: OfficeTransaction, row: int, *, host: bool, actor: str) -> Cancelled:
    message_id, state, trace, agent, session, fence = _read(tx, row)
    what = f"The message '{message_id}'"
    if state == MessageState.CANCELLED:
        return Cancelled()
    if state == MessageState.PROCESSING and not host:
        raise WrongState(_NO_HOST.format(what=what))
    runs = _end(tx, row, message_id, state, trace, agent, session, fence, actor)
    if runs is None:
        hint = f" `manydesks queue drop {message_id}` gives up a dead one." if state == MessageState.DEAD else ""
        allowed = "a pending, a held or a running one"
        raise WrongState(
            f"{WrongState(what=what, status=word(MessageState(state)), allowed=allowed, act='cancelled')}{hint}"
        )
    return Cancelled(messages=1, runs=runs)


_NO_HOST = (
    "{what} was running when the office ended, and only an open office ends a run: `manydesks up`, then cancel it."
)


def _read(tx: OfficeTransaction, row: int) -> tuple[str, int, str, str, str, int | None]:
    found = tx.one(_ROW, (row,))
    assert found is not None
    message_id, state, trace, agent, session, fence = found
    return message_id, state, trace, agent, session, fence


def _end(
    tx: OfficeTransaction,
    row: int,
    message_id: str,
    state: int,
    trace: str,
    agent: str,
    session: str,
    fence: int | None,
    actor: str,
) -> tuple[Run, ...] | None:
    """The runs that have to be ended for it; None: it has ended before, by itself or with another one of these."""
    reason = "cancelled"
    runs: tuple[Run, ...] = ()
    run_id: str | None = None
    if state in (MessageState.PENDING, MessageState.HELD):
        MESSAGES.remove(tx, row, MessageState.CANCELLED)
    elif state == MessageState.PROCESSING and fence is not None:
        run = find_run(tx, session=session, fence=fence)
        if run is not None:
            run_id = run["id"]
            withdraw(tx, message_id, run_id, reason)
            tx.run(
                "update runs set outcome = ?, reason = ? where id = ? and ended_at is null",
                (STOPPED, f"cancelled by {actor}", run_id),
            )
            runs = ((session, fence),)
        MESSAGES.leave(tx, row, fence, MessageState.CANCELLED)
    else:
        return None
    tx.event("message_cancelled", trace=trace, message=message_id, run=run_id, session=session, agent=agent,
             reason=reason, actor=actor)  # fmt: skip
    message_ended(tx, origin(tx, message_id), well=False, reason="it was cancelled")
    return runs
