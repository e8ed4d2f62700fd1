"""T3: what the desk proposes becomes true: responses, hand-offs, usage, and the end of messages.

Rows of the session's live claim are applied; the cursor moves past the others in the same transaction, with a word in
the ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from manydesks.domain.attachment import Taken
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.mail import Ack, Collected, Outbound, Step
from manydesks.domain.prices import Prices
from manydesks.domain.states import MessageState
from manydesks.store import operations
from manydesks.store.accept import MESSAGES
from manydesks.store.lanes import live_fence
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.outcome import (
    Claimed,
    Rules,
    cancel,
    complete,
    died,
    end_run,
    fail,
    find_claimed,
    find_member,
    find_run,
    give_back,
)
from manydesks.store.respond import ORIGIN, origin

CURSOR = "select seq from outbound_cursors where session = ? and epoch = ?"
#: what a row answers, as `ORIGIN` has it; whether it was stopped under this fence, is of this run, and whether a row of
#: this id was taken from the run before
ANSWERED = f"""
select {", ".join(ORIGIN)}, state = {int(MessageState.CANCELLED)} and fence is ?2,
  exists (select 1 from run_messages r where r.run = ?3 and r.message = ?1),
  exists (select 1 from responses s where s.run = ?3 and s.outbound = ?4)
from messages where message_id = ?1
"""
LAST_ENDED = "select fence from runs where session = ? and ended_at is not null order by fence desc limit 1"
MOVE_CURSOR = """
insert into outbound_cursors (session, epoch, seq) values (?, ?, ?)
on conflict (session, epoch) do update set seq = excluded.seq
"""


#: how the reason of a run begins that sent too many messages
FLOOD = "the run sent more than"
#: nothing came with it
NO_FILES: Mapping[str, Taken] = MappingProxyType({})


def cursors(tx: OfficeTransaction, session: str) -> dict[str, int]:
    """How far each outbound file of the session was taken, by its epoch."""
    return dict(tx.all("select epoch, seq from outbound_cursors where session = ?", (session,)))


def take(
    tx: OfficeTransaction, session: str, found: Collected, rules: Rules, files: Mapping[str, Taken] = NO_FILES
) -> int:
    """Apply what was collected from a session's outbound file; the fence of its latest run that has ended (0: none).

    `files`: what the office has taken of the files that rows name, by the row's id; they are on the disk already.
    A run that sends too many messages fails by the first of these, and whatever comes after it is of a claim that is
    over.
    """
    done = tx.one(CURSOR, (session, found.epoch))
    after = done[0] if done and not found.restored else 0
    applied = False
    sent: dict[str, int] = {}
    claimed = Claimed(None, None, 0)
    #: of a run that has ended here: no later one can have, for its claim was live
    ended: int | None = None
    #: the fence that `claimed` was asked for; None: something may have changed since
    asked: int | None = None
    rows: list[Outbound | Ack | Step] = [*found.messages, *found.acks, *found.steps]
    for row in sorted((row for row in rows if row.seq > after), key=lambda row: row.seq):
        if isinstance(row, Step):
            # nothing tells the steps of an older copy that were counted from those that were not: none is counted twice
            if not found.restored:
                _take_step(tx, session, row, rules.prices)
                asked = None
            continue
        if row.fence != asked:
            claimed, asked = find_claimed(tx, session, row.fence), row.fence
        run, live = claimed.run, claimed.live
        if row.fence != live or run is None or run["id"] != row.run:
            what = "ack" if isinstance(row, Ack) else "message"
            tx.event("output_discarded", session=session, run=run["id"] if run else None, fence=row.fence,
                     current=live, what=what, out_id=row.message if isinstance(row, Ack) else row.id)  # fmt: skip
        elif isinstance(row, Ack):
            applied, asked = True, None
            if _take_ack(tx, run, row, rules):
                ended = row.fence
        elif _is_flood(claimed, run, sent, rules.run_messages):
            asked = None
            tx.event("output_discarded", session=session, run=run["id"], agent=run["agent"], fence=row.fence,
                     current=live, what="one message too many", out_id=row.id)  # fmt: skip
            reason = f"{FLOOD} {rules.run_messages} messages"
            died(tx, run, Failure(kind=FailureClass.PERMANENT, reason=reason), rules)
            ended = row.fence
        else:
            applied = True
            _take_message(tx, run, row, rules, files.get(row.id, ()))
    if found.last_seq > after or found.restored:
        tx.run(MOVE_CURSOR, (session, found.epoch, found.last_seq))
    # a token is only worth what it came with: one from a claim that is over would fork the session
    if applied and (token := found.state.get("continuation")) is not None:
        tx.run("update sessions set continuation = ? where id = ?", (token, session))
    if ended is not None:
        return ended
    last = tx.one(LAST_ENDED, (session,))
    return last[0] if last else 0


def was_flood(tx: OfficeTransaction, session: str, fence: int) -> bool:
    """Whether the run of this claim has ended by that."""
    found = tx.one("select reason from runs where session = ? and fence = ?", (session, fence))
    return found is not None and str(found[0]).startswith(FLOOD)


def _is_flood(claimed: Claimed, run: Mapping[str, Any], sent: dict[str, int], most: int) -> bool:
    """Whether the next message is one too many; `sent` counts for one page what the store has not counted before."""
    # of this page the first word counts: rows that were stored since are in it already
    sent[run["id"]] = sent.get(run["id"], claimed.taken) + 1
    return sent[run["id"]] > most


def run_died(tx: OfficeTransaction, session: str, fence: int, failure: Failure, rules: Rules) -> None:
    """The runner ended, or was ended, with messages unanswered."""
    run = find_run(tx, session=session, fence=fence)
    if run is not None and live_fence(tx, session) == fence:
        died(tx, run, failure, rules)


def run_released(tx: OfficeTransaction, session: str, fence: int, reason: str) -> None:
    """The office stops in good order: what was not answered goes back, uncounted."""
    run = find_run(tx, session=session, fence=fence)
    if run is not None and live_fence(tx, session) == fence:
        give_back(tx, run, reason)
        end_run(tx, run, "released", reason)


def _take_message(tx: OfficeTransaction, run: Mapping[str, Any], row: Outbound, rules: Rules, files: Taken) -> None:
    answered = row.in_reply_to or run["message"]
    what: str | None = operations.UNREADABLE
    if (known := tx.one(ANSWERED, (answered, row.fence, run["id"], row.id))) is not None:
        *columns, stopped, is_of_run, repeated = known
        if repeated:
            # a desk's file that was restored or made anew may repeat what was taken under the same claim
            what = "repeated message"
        elif stopped:
            what = "message of a stopped run"
        elif is_of_run:
            what = operations.apply(tx, run, row, dict(zip(ORIGIN, columns, strict=True)), rules, files)
    if what is not None:
        tx.event("output_discarded", session=run["session"], run=run["id"], agent=run["agent"], fence=row.fence,
                 current=row.fence, what=what, out_id=row.id)  # fmt: skip


def _take_ack(tx: OfficeTransaction, run: Mapping[str, Any], ack: Ack, rules: Rules) -> bool:
    """True: with it the run has ended."""
    member = find_member(tx, ack.message, ack.fence)
    if member is None:
        tx.event("output_discarded", session=run["session"], run=run["id"], agent=run["agent"], fence=ack.fence,
                 current=ack.fence, what="ack", out_id=ack.message)  # fmt: skip
        return False
    if ack.status == "completed":
        return complete(tx, run, member)
    if ack.status == "cancelled":
        return cancel(tx, run, member, ack.reason)
    failure = Failure(
        kind=FailureClass(ack.failure or "transient"),
        reason=ack.reason or "no reason given",
        retry_after=ack.retry_after,
    )
    fail(tx, run, ack.message, member.row, member.retries, failure, rules)
    # a failure ends its claim: what stood behind it returns to the lane, uncounted
    if MESSAGES.members(tx, run["fence"]):
        give_back(tx, run, "a message before it failed")
    else:
        MESSAGES.end(tx, run["fence"])
    end_run(tx, run, "failed", failure.reason)
    return True


def _take_step(tx: OfficeTransaction, session: str, step: Step, prices: Prices) -> None:
    known = tx.one(
        "select agent, message, model from runs where id = ? and session = ? and ended_at is null", (step.run, session)
    )
    if known is None:
        return
    agent, message, model = known
    trace = origin(tx, message)["trace"]
    about = {"trace": trace, "message": message, "run": step.run, "session": session, "agent": agent}
    data = step.data
    if step.type == "tool_call":
        digest = hashlib.sha256(json.dumps(data.get("arguments"), sort_keys=True).encode()).hexdigest()[:16]
        tx.event("tool_called", **about, tool=str(data.get("tool")), call=str(data.get("id")), digest=digest)
    elif step.type == "tool_result":
        tx.event("tool_done", **about, tool=str(data.get("tool")), call=str(data.get("id")),
                 duration_ms=_whole(data.get("duration_ms")), ok=bool(data.get("ok")))  # fmt: skip
    elif step.type == "usage":
        model = named if isinstance(named := data.get("model"), str) else model
        tokens = {field: _whole(data.get(field)) for field in _TOKENS}
        cost = _sum(data.get("cost_usd"))
        if cost is None:
            cost = prices.cost(model, **tokens)
        tx.run(
            "update runs set model = coalesce(?, model), "
            + ", ".join(
                # unknown stays null; what is known adds up over the run
                f"{column} = case when ? is null then {column} else coalesce({column}, 0) + ? end"
                for column in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")
            )
            + " where id = ? and ended_at is null",
            (
                model,
                *(count for count in tokens.values() for _ in range(2)),
                *(cost, cost),
                step.run,
            ),
        )


_TOKENS = ("input", "output", "cache_read", "cache_write")

#: no step of any run means more; sums of these fit their column
_MOST = 10**15


def _whole(value: Any) -> int | None:
    """A desk writes what it likes: what is no count is unknown, and never keeps the rest from being taken."""
    return value if type(value) is int and 0 <= value <= _MOST else None


def _sum(value: Any) -> float | None:
    # NaN is in no range
    return float(value) if type(value) in (int, float) and 0 <= value <= _MOST else None
