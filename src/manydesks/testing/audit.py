"""The books of an office that has come to rest: what must be true in `office.db`, whatever happened on the way."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from manydesks.domain.states import JoinState, MessageState, PartState, ResponseState, may_move

M, R = MessageState, ResponseState

#: where each event leaves its message
MESSAGE_EVENTS = {
    "message_enqueued": M.PENDING,
    "message_held": M.HELD,
    "message_released": M.PENDING,
    "message_received": M.PROCESSING,
    "message_completed": M.COMPLETED,
    "message_retried": M.PENDING,
    "message_returned": M.PENDING,
    "message_dead": M.DEAD,
    "message_requeued": M.PENDING,
    "message_cancelled": M.CANCELLED,
}
#: and its response; that a sending begins is no event
RESPONSE_EVENTS = {
    "response_ready": R.PENDING,
    "response_delivered": R.ACKED,
    "response_retried": R.PENDING,
    "response_unsure": R.UNSURE,
    "response_dead": R.DEAD,
    "response_withdrawn": R.WITHDRAWN,
    "response_held": R.HELD,
    "response_released": R.PENDING,
    "response_expired": R.EXPIRED,
}


def complaints(office_db: Path) -> list[str]:
    """Everything that is wrong, each as a sentence. Nothing may be under way: the host is closed, or has no work."""
    with closing(sqlite3.connect(f"file:{office_db}?mode=ro", uri=True)) as db:
        checks = (
            _ledger, _at_rest, _messages_as_told, _responses_as_told, _lanes, _answers, _waits, _handed_over, _counters,
        )  # fmt: skip
        return [said for check in checks for said in check(db)]


def _ledger(db: sqlite3.Connection) -> Iterator[str]:
    ((head,),) = db.execute("select seq from ledger_head")
    seqs = [seq for (seq,) in db.execute("select seq from events order by seq")]
    if seqs != list(range(seqs[0] if seqs else 1, head + 1)):
        yield f"the ledger has a gap: {len(seqs)} events from {seqs[:1]} up to {head}"


def _at_rest(db: sqlite3.Connection) -> Iterator[str]:
    for what, sql in (
        ("claims", "select fence from claims"),
        ("open runs", "select id from runs where ended_at is null"),
        ("moving messages", f"select message_id from messages where state <= {int(M.PROCESSING)}"),
        ("responses that are being sent", f"select id from responses where state = {int(R.SENDING)}"),
        (
            "reservations",
            "select subject from spending where reserved_usd <> 0 or reserved_tokens <> 0 or reserved_runs <> 0",
        ),
        ("texts that are named and not there", _MISSING_TEXT),
    ):
        if left := db.execute(sql).fetchall():
            yield f"there are {what}: {left[:5]}"


_MISSING_TEXT = """
select named.body from (select body from messages union select body from responses union select body from arrivals
  union select body from chat_messages union select body from agent_messages) named
left join bodies b on b.id = named.body where b.id is null and named.body is not null
"""


def _messages_as_told(db: sqlite3.Connection) -> Iterator[str]:
    """The ledger tells of every move, and of no other than there is."""
    told: dict[str, MessageState] = {}
    kinds = json.dumps(list(MESSAGE_EVENTS))
    sql = "select seq, kind, message from events where kind in (select value from json_each(?)) order by seq"
    for seq, kind, message in db.execute(sql, (kinds,)):
        before, after = told.get(message), MESSAGE_EVENTS[kind]
        if (before is None) is not (kind == "message_enqueued"):
            yield f"event {seq}: {kind} of {message}, which was {before!r}"
        elif before is after is M.HELD:
            pass  # the time of one that waits begins anew, or it waits for something else
        elif before is not None and not may_move(before, after):
            yield f"event {seq}: {message} cannot go from {before.name} to {after.name}"
        told[message] = after
    rows = {id: M(state) for id, state in db.execute("select message_id, state from messages")}
    for id in rows.keys() | told.keys():
        if rows.get(id) is not told.get(id):
            yield f"message {id} is {rows.get(id)!r}, and the ledger says {told.get(id)!r}"


def _responses_as_told(db: sqlite3.Connection) -> Iterator[str]:
    told: dict[int, ResponseState] = {}
    kinds = json.dumps(list(RESPONSE_EVENTS))
    sql = "select kind, json_extract(data, '$.response') from events where kind in (select value from json_each(?))"
    for kind, response in db.execute(f"{sql} order by seq", (kinds,)):
        told[response] = RESPONSE_EVENTS[kind]
    rows = {id: R(state) for id, state in db.execute("select id, state from responses")}
    for id in rows.keys() | told.keys():
        if rows.get(id) is not told.get(id):
            yield f"response {id} is {rows.get(id)!r}, and the ledger says {told.get(id)!r}"


def _lanes(db: sqlite3.Connection) -> Iterator[str]:
    """One run of a lane at a time, and no more of an agent than it may have; fences only grow."""
    most = dict(db.execute("select id, concurrency from agents"))
    fences = dict(db.execute("select id, fence from runs"))
    last: dict[str, int] = {}
    open_in: dict[str, str] = {}
    open_of: Counter[str] = Counter()
    sql = "select seq, kind, session, run, agent from events where kind in ('chain_step_start', 'chain_step_done')"
    for seq, kind, session, run, agent in db.execute(f"{sql} order by seq"):
        if kind == "chain_step_start":
            if session in open_in:
                yield f"event {seq}: {run} begins in {session} while {open_in[session]} runs there"
            if fences[run] <= last.get(session, 0):
                yield f"event {seq}: {run} has the fence {fences[run]}, and {session} had {last[session]}"
            open_in[session], last[session] = run, fences[run]
            open_of[agent] += 1
            if open_of[agent] > most[agent]:
                yield f"event {seq}: {agent} has {open_of[agent]} runs at once"
        else:
            if open_in.pop(session, None) != run:
                yield f"event {seq}: {run} ends in {session}, and did not run there"
            open_of[agent] -= 1
    received = "select seq, session, run, json_extract(data, '$.fence') from events where kind = 'message_received'"
    for seq, _, run, fence in db.execute(received):
        if fences[run] != fence:
            yield f"event {seq}: claimed under the fence {fence}, and {run} has {fences[run]}"


def _answers(db: sqlite3.Connection) -> Iterator[str]:
    """Nobody is answered twice: what is kept of the answers to a message is of one run."""
    kept = f"operation <> 'notice' and run is not null and state <> {int(R.WITHDRAWN)}"
    for what, sql in (
        ("answered by two runs", f"select message_id from responses where {kept} "
         "group by message_id having count(distinct run) > 1"),
        ("said twice", "select run, outbound from responses where outbound is not null "
         "group by run, outbound having count(*) > 1"),
        ("two responses with one number", "select message_id, part from responses group by 1, 2 having count(*) > 1"),
        ("completed without an answer", "select message_id from messages m where state = "
         f"{int(M.COMPLETED)} and kind = 'chat' and not exists (select 1 from responses r "
         f"where r.message_id = m.message_id and r.state <> {int(R.WITHDRAWN)})"),
        ("dead without a word to the sender", f"select message_id from messages m where state = {int(M.DEAD)} "
         "and not exists (select 1 from responses r where r.message_id = m.message_id and operation = 'notice')"),
        ("said twice to an agent", "select agent_id, message_id from agent_messages where role = 'user' "
         "group by 1, 2 having count(*) > 1"),
    ):  # fmt: skip
        if found := db.execute(sql).fetchall():
            yield f"{what}: {found[:5]}"


def _waits(db: sqlite3.Connection) -> Iterator[str]:
    """Who waited for others went on when they had ended, and once."""
    parts = "select 1 from join_parts p join messages m on m.message_id = p.message where p.join_id = j.id"
    for what, sql in (
        ("waits for what has ended", f"select message from joins j where ended_at is null and state = "
         f"{int(JoinState.OPEN)} and not exists ({parts} and m.state < {int(M.COMPLETED)})"),
        ("waits, and no part is open", f"select message from joins j where ended_at is null and state = "
         f"{int(JoinState.OPEN)} and not exists ({parts} and p.state = {int(PartState.OPEN)})"),
        ("a part is answered, and is not", f"select message from join_parts p where state = {int(PartState.ANSWERED)} "
         f"and not exists (select 1 from messages m where m.message_id = p.message and m.state = {int(M.COMPLETED)})"),
        ("its wait is over, and it is held for it", "select m.message_id from messages m join joins j "
         f"on j.id = m.hold_ref where m.state = {int(M.HELD)} and j.ended_at is not null"),
    ):  # fmt: skip
        if found := db.execute(sql).fetchall():
            yield f"{what}: {found[:5]}"


def _handed_over(db: sqlite3.Connection) -> Iterator[str]:
    """A message that was tried again has handed nothing over twice, nor posted it twice."""
    for what, sql in (
        ("handed over by two runs", "select parent from messages where from_run is not null "
         "group by parent having count(distinct from_run) > 1"),
        ("posted by two runs", "select message from chat_messages where message is not null "
         "group by message having count(distinct run) > 1"),
    ):  # fmt: skip
        if found := db.execute(sql).fetchall():
            yield f"{what}: {found[:5]}"


def _counters(db: sqlite3.Connection) -> Iterator[str]:
    kept = {(scope, agent, state): n for scope, agent, state, n in db.execute(
        "select scope, agent, state, n from counters where n <> 0 and scope in ('messages', 'responses')")}  # fmt: skip
    counted = {
        (scope, queue, state): n
        for scope in ("messages", "responses")
        for queue, state, n in db.execute(f"select queue, state, count(*) from {scope} group by queue, state")
    }
    for key in sorted(kept.keys() | counted.keys()):
        if kept.get(key) != counted.get(key):
            yield f"the counter {key} is {kept.get(key)}, and there are {counted.get(key)}"
