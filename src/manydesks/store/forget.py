"""Forgetting: the text of messages leaves the store, and everything that was said in answer to them.

Rows stay, and so does every event: what they name is an empty text. Messages that came with the very same text are
forgotten like the one that was named. What other messages quote of it is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from manydesks.domain.errors import UnknownMessage, WrongState
from manydesks.domain.states import MESSAGE_ENDED, RESPONSE_ENDED, MessageState, ResponseState, word
from manydesks.store.bodies import FORGOTTEN
from manydesks.store.database import SECURE_DELETE
from manydesks.store.lanes import live_fence
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.quotes import quoting

_IDS = "(select value from json_each(?1))"
FOUND = f"select message_id, state, agent, session from messages where message_id in {_IDS} order by id"
RUNS = f"""
select r.id, r.agent, r.session from run_messages m join runs r on r.id = m.run where m.message in {_IDS}
order by r.fence
"""
#: every text that is theirs: as they came, as they were edited, what was answered, asked, posted on the way
BODIES = f"""
select body from messages where message_id in {_IDS}
union select body from responses where message_id in {_IDS}
union select original_body from responses where message_id in {_IDS} and original_body is not null
union select body from events where trace = ?2 and message in {_IDS} and body is not null
union select body from chat_messages where run in (select value from json_each(?3)) and message in {_IDS}
union select body from arrivals where trace = ?2
"""
#: what the office says by itself about a failure: it has the reason in it, so every reason would quote it
NOTICES = f"select body from responses where operation = 'notice' and message_id in {_IDS}"
TEXTS = "select id, text, erased_at from bodies where id in (select value from json_each(?))"
#: other messages that came with one of these very texts: a broadcast, a post in a room
SHARING = f"""
select message_id, state from messages
where body in (select value from json_each(?2)) and message_id not in {_IDS} order by id
"""
#: what else there is of the trace, and who was answered in the same runs
AROUND = f"""
select message_id from messages where trace = ?2 and message_id not in {_IDS}
union select message from run_messages where run in (select value from json_each(?3)) and message not in {_IDS}
"""
ON_ITS_WAY = f"""
select id, state, message_id from responses where message_id in {_IDS} and state < {int(RESPONSE_ENDED)} limit 1
"""
ASKING = f"select id, message from questions where message in {_IDS} and state = 0 limit 1"
AWAITED = f"""
select j.message, p.message from join_parts p join joins j on j.id = p.join_id
where p.message in {_IDS} and j.ended_at is null limit 1
"""
FILES = f"""
select files from messages where files is not null and message_id in {_IDS}
union all select files from responses where files is not null and message_id in {_IDS}
"""
OTHER_FILES = f"""
select files from messages where files is not null and message_id not in {_IDS}
union all select files from responses where files is not null and (message_id is null or message_id not in {_IDS})
"""
#: rows of desks, by which their outboxes are named
ROWS = f"select outbound from responses where outbound is not null and message_id in {_IDS}"

ERASE = "update bodies set text = '', erased_at = ? where id = ? and erased_at is null"
CLEAR = (
    f"update messages set content = null, files = null where message_id in {_IDS}",
    f"update responses set metadata = null, files = null where message_id in {_IDS}",
    f"""update questions set title = '', question = '', options = '[]', selected = null,
        answer = case when answer is null then null else '' end where message in {_IDS}""",
    # reasons are what programs wrote, and may quote anything
    f"update messages set last_error = '{FORGOTTEN}' where last_error is not null and message_id in {_IDS}",
    f"update responses set last_error = '{FORGOTTEN}' where last_error is not null and message_id in {_IDS}",
    f"update join_parts set reason = '{FORGOTTEN}' where reason is not null and message in {_IDS}",
)
CLEAR_RUNS = f"update runs set reason = '{FORGOTTEN}' where reason is not null and id in {_IDS}"


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """What belongs to the messages that shall be forgotten, in the store and at desks."""

    trace: str
    #: those that were named, and those with the same text
    messages: tuple[str, ...]
    bodies: tuple[int, ...]
    #: what they say; empty if all of it was forgotten before
    texts: tuple[str, ...]
    #: of the messages, those that were not named: they came with the same text, or with one of an answer
    sharing: tuple[str, ...]
    #: events that quote it, which stay
    quoted_in: tuple[int, ...]
    #: what these say
    quotes: tuple[str, ...]
    #: other messages that may quote it, and are left alone
    around: tuple[str, ...]
    runs: tuple[str, ...]
    #: (agent, session) of every desk that had it
    places: tuple[tuple[str, str], ...]
    #: rows of desks
    rows: tuple[str, ...]
    #: paths in the home that no other row names
    files: tuple[str, ...]


def forgettable(tx: OfficeTransaction, message_id: str, *, whole_trace: bool) -> Forgetting:
    """What forgetting it means. WrongState: something of it still moves, or waits."""
    tx.settle()  # what the ledger gets with the same commit may name a text, or quote it
    first = tx.one("select trace from messages where message_id = ?", (message_id,))
    if first is None:
        raise UnknownMessage(message=message_id)
    (trace,) = first
    named = [message_id]
    if whole_trace:
        named = [id for (id,) in tx.all("select message_id from messages where trace = ? order by id", (trace,))]
    for id, state, _, _ in tx.all(FOUND, (json.dumps(named),)):
        _refuse_live(id, state)
    messages = list(named)
    while True:
        ids = json.dumps(messages)
        runs = tx.all(RUNS, (ids,))
        run_ids = json.dumps([run for run, _, _ in runs])
        bodies = sorted(body for (body,) in tx.all(BODIES, (ids, trace, run_ids)))
        # what was answered to these may have come to others in turn
        if not (sharing := tx.all(SHARING, (ids, json.dumps(bodies)))):
            break
        for id, state in sharing:
            _refuse_live(id, state, " has the same text, and")
        messages += [id for id, _ in sharing]
    _refuse_unfinished(tx, ids, named)
    rows = tx.all(FOUND, (ids,))
    places = sorted({(agent, session) for _, _, agent, session in rows} | {(a, s) for _, a, s in runs})
    for agent, session in places:
        if live_fence(tx, session) is not None:
            raise WrongState(
                f"The agent '{agent}' is at work in the session that had the message; forget it when the run has "
                f"ended, or stop the run first: `manydesks queue cancel --agent {agent}`."
            )
    texts = {id: text for id, text, erased in tx.all(TEXTS, (json.dumps(bodies),)) if erased is None}
    notices = {body for (body,) in tx.all(NOTICES, (ids,))}
    told = [text for id, text in texts.items() if id not in notices]
    quoted = quoting(tx, trace, messages, [run for run, _, _ in runs], told)
    return Forgetting(
        trace=trace,
        messages=tuple(messages),
        bodies=tuple(bodies),
        texts=tuple(texts.values()),
        sharing=tuple(messages[len(named) :]),
        quoted_in=tuple(quoted),
        quotes=tuple(sorted({words for said in quoted.values() for words in said})),
        around=tuple(id for (id,) in tx.all(AROUND, (ids, trace, run_ids))),
        runs=tuple(run for run, _, _ in runs),
        places=tuple(places),
        rows=tuple(row for (row,) in tx.all(ROWS, (ids,))),
        files=tuple(sorted(_paths(tx, FILES, ids) - _paths(tx, OTHER_FILES, ids))),
    )


def forget(tx: OfficeTransaction, message_id: str, *, whole_trace: bool, actor: str = "owner") -> int:
    """Empty what `forgettable` found, looked for again; how many texts. What was emptied before stays as it is."""
    found = forgettable(tx, message_id, whole_trace=whole_trace)
    # also pages that come free as a whole
    tx.db.execute("pragma secure_delete = on").fetchall()
    erased = 0
    for body in found.bodies:
        tx.run(ERASE, (tx.now, body))
        if tx.db.changes():
            erased += 1
            tx.event("body_erased", trace=found.trace, message=message_id, body=body, actor=actor,
                     quoted_in=found.quoted_in or None)  # fmt: skip
    ids = json.dumps(found.messages)
    for statement in CLEAR:
        tx.run(statement, (ids,))
    tx.run(CLEAR_RUNS, (json.dumps(found.runs),))
    tx.db.execute(f"pragma secure_delete = {SECURE_DELETE}").fetchall()
    return erased


def holders(tx: OfficeTransaction, pieces: Sequence[str], most: int = 10) -> list[int]:
    """Texts that hold one of these pieces, and are nobody's to forget by the way. Reads all of them."""
    sql = "select id from bodies where exists (select 1 from json_each(?1) where instr(text, value)) limit ?2"
    return [id for (id,) in tx.all(sql, (json.dumps(list(pieces)), most))]


def _paths(tx: OfficeTransaction, sql: str, ids: str) -> set[str]:
    return {file["path"] for (named,) in tx.all(sql, (ids,)) for file in json.loads(named)}


def _refuse_live(id: str, state: int, why: str = "") -> None:
    if state < MESSAGE_ENDED:
        raise WrongState(
            f"The message '{id}'{why} is {word(MessageState(state))}; only one that has ended can be forgotten: "
            f"`manydesks queue cancel {id}` ends it."
        )


def _refuse_unfinished(tx: OfficeTransaction, ids: str, named: Sequence[str]) -> None:
    def which(id: str) -> str:
        return "the message" if id in named else f"the message '{id}', which has the same text,"

    if (row := tx.one(ON_ITS_WAY, (ids,))) is not None:
        id, state, message = row
        raise WrongState(
            f"An answer to {which(message)} is {word(ResponseState(state))}; forget it when that was delivered, or "
            f"drop it first: `manydesks responses drop {id}`."
        )
    if (row := tx.one(ASKING, (ids,))) is not None:
        id, message = row
        raise WrongState(f"The question '{id}' about {which(message)} waits for an answer; answer it first.")
    if (row := tx.one(AWAITED, (ids,))) is not None:
        waiting, message = row
        whose = "it" if message in named else which(message).removesuffix(",")
        raise WrongState(f"The message '{waiting}' waits for the answer to {whose}; only then can it be forgotten.")
