"""Retention: what is old leaves the store, in steps that are small enough to share a commit with anything else.

The ledger goes first, from its bottom, event by event: what is older than the cut-off and, if so ruled, in the lake.
Everything else follows it. The last event of a trace takes the trace along: its messages, runs and responses, if all of
them have ended. Whatever has not ended will write another event when it does, and is looked at again when that one
goes. So no row needs a date of its own, no wrong clock can put a row before its events, and a row is never removed
before the lake has all that was said about it.

Dead letters wait for a person, and unsure responses for somebody who knows: both keep their whole trace. Arrivals are
kept for 90 days, so that a repeated one is recognised. What agents remember (`agent_messages`) is kept for ever, and so
is what was said in rooms (`chat_messages`).
A text goes with the last row that refers to it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from manydesks.domain.states import MESSAGE_ENDED, RESPONSE_ENDED, MessageState
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.transaction import READ_MARK, WRITE_MARK

#: rows that one step removes at most, texts included
STEP = 500

#: a repeated arrival is recognised for this long
ARRIVAL_MS = 90 * 24 * 3_600_000

#: marks: the highest event that was pruned, and the highest text that a pruned event named
PRUNED, PRUNED_BODY = "pruned", "pruned_body"

#: by the ledger's own key, so a step reads only what it may remove
OLDEST_EVENTS = "select seq, at, kind, trace, body from events where seq > ? order by seq limit ?"
GOES_ON = "select 1 from events where trace = ? and seq > ? limit 1"
REMOVE_EVENTS = "delete from events where seq > ? and seq <= ?"

#: something of the trace moves still, or waits for a person
UNFINISHED = f"""
select 1 from messages where trace = ?1 and (state < {int(MESSAGE_ENDED)} or state = {int(MessageState.DEAD)})
union all select 1 from responses where trace = ?1 and state < {int(RESPONSE_ENDED)}
union all select 1 from messages m join questions q on q.message = m.message_id where m.trace = ?1 and q.state = 0
union all select 1 from messages m join runs r on r.id = m.run where m.trace = ?1 and r.ended_at is null
limit 1
"""
RESPONSES_OF = "select id, queue, state, body, original_body from responses where trace = ? limit ?"
MESSAGES_OF = "select id, message_id, queue, state, body from messages where trace = ? limit ?"
#: a run may have served messages of several traces; it goes with the last of them
LEAVE_RUN = "delete from run_messages where run = ? and message = ?"
REMOVE_RUN = """
delete from runs where id = ?1 and ended_at is not null and not exists (select 1 from run_messages where run = ?1)
returning id
"""
CLOSE_ARRIVAL = "update arrivals set pruned_at = ? where trace = ?"

OLD_ARRIVALS = "select source, key, body from arrivals where at < ? order by at limit ?"

#: nobody refers to them any more; the foreign keys hold the same, so a reference that is not named here is an error
FREE_BODIES = """
delete from bodies where id in (select value from json_each(?))
  and not exists (select 1 from agent_messages where body = bodies.id)
  and not exists (select 1 from events where body = bodies.id)
  and not exists (select 1 from messages where body = bodies.id)
  and not exists (select 1 from responses where body = bodies.id)
  and not exists (select 1 from responses where original_body = bodies.id)
  and not exists (select 1 from arrivals where body = bodies.id)
  and not exists (select 1 from chat_messages where body = bodies.id)
  and not exists (select 1 from joins where body = bodies.id)
returning id
"""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What a lake is seen to hold: the last event, and the last text."""

    events: int
    texts: int


@dataclass(kw_only=True)
class Pruned:
    """What one step, or several together, removed, and what holds the rest back."""

    events: int = 0
    messages: int = 0
    responses: int = 0
    runs: int = 0
    arrivals: int = 0
    bodies: int = 0
    #: the oldest event that is kept
    first: int = 1
    #: the next step would remove something
    more: bool = False
    #: the oldest kept event is old enough to go, but not in the lake
    waits_for_archive: bool = False
    #: the lake has the ledger up to here
    archived: int = 0

    @property
    def counts(self) -> dict[str, int]:
        names = ("events", "messages", "responses", "runs", "arrivals", "bodies")
        return {name: getattr(self, name) for name in names}

    def then(self, later: Pruned) -> Pruned:
        """This step and a later one: numbers add up, the rest is as the later one left it."""
        rest = {field.name: getattr(later, field.name) for field in fields(later)}
        return Pruned(**(rest | {name: n + getattr(later, name) for name, n in self.counts.items()}))


def prune(
    tx: OfficeTransaction,
    *,
    keep_ms: int,
    require_archive: bool,
    lake: Reach | None = None,
    most: int = STEP,
    arrival_ms: int = ARRIVAL_MS,
) -> Pruned:
    """One step: at most `most` rows go. The newest event always stays, so the ledger's end can be read off it.

    `lake`: what it is seen to hold; what is marked as archived and is not there is not. None: it was not asked.
    """
    tx.settle()  # what others do with the same commit is no past
    # whichever clock is behind: one that was set forward, or came up wrong at the boot, makes nothing old by itself
    now = min(tx.now, tx.steady)
    step = _Step(tx, most)
    first = _mark(tx, PRUNED) + 1
    archived = _mark(tx, "archived")
    if lake is not None:
        archived = min(archived, lake.events)
    head = tx.one("select seq from ledger_head")
    assert head is not None
    upto = min(archived, head[0] - 1) if require_archive else head[0] - 1
    window = tx.all(OLDEST_EVENTS, (first - 1, most + 1))
    if require_archive and lake is not None:
        # an event is in the lake when its text is
        lacking = next((seq for seq, *_, body in window if body is not None and body > lake.texts), upto + 1)
        archived, upto = min(archived, lacking - 1), min(upto, lacking - 1)
    old = old_enough(window, before=now - keep_ms, now=now)
    for seq, _, kind, trace, body in window[:old]:
        if seq > upto or not step.affords(2):
            break
        if trace is not None and not _goes_on(tx, trace, seq) and not step.remove_trace(trace):
            break
        step.remove_event(seq, kind, body)
    if step.last_event:
        tx.run(REMOVE_EVENTS, (first - 1, step.last_event))
        tx.run(WRITE_MARK, (PRUNED, step.last_event))
        first = step.last_event + 1
    step.remove_arrivals(now - arrival_ms)
    step.free_bodies()
    done = step.done
    left = window[done.events : old]
    done.first, done.archived = first, archived
    # an event that the next step cannot take either is no reason to take it
    done.more = step.full or bool(left and left[0][0] <= upto)
    done.waits_for_archive = bool(left) and require_archive and left[0][0] > archived
    if step.tell:
        told: dict[str, Any] = {**done.counts, "upto": first - 1}
        tx.event("retention_pruned", **told)
    return done


def old_enough(events: Sequence[tuple[Any, ...]], *, before: int, now: int) -> int:
    """How many of these (seq, at, …), from the first on, are older than `before`.

    A moment that is still to come was given by a wrong clock and says nothing: such an event goes with those after it.
    """
    count = 0
    for number, (_, at, *_) in enumerate(events, 1):
        if at > now:
            continue
        if at >= before:
            break
        count = number
    return count


class _Step:
    """What one step has removed so far, and what it may still remove."""

    def __init__(self, tx: OfficeTransaction, most: int) -> None:
        self.tx = tx
        self.left = most
        #: it stopped because it has removed as much as it may
        self.full = False
        self.done = Pruned()
        self.last_event = 0
        #: something went that is worth an event; the events about earlier prunings are not, or it would never end
        self.tell = False
        self._bodies: set[int] = set()
        self._named = 0

    def affords(self, rows: int) -> bool:
        self.full = self.full or self.left < rows
        return not self.full

    def remove_event(self, seq: int, kind: str, body: int | None) -> None:
        self._spend(1, body)
        self._named = max(self._named, body or 0)
        self.last_event = seq
        self.done.events += 1
        self.tell = self.tell or kind != "retention_pruned"

    def remove_trace(self, trace: str) -> bool:
        """The rows of a trace whose last event is about to go. False: some are left for the next step."""
        tx = self.tx
        if tx.one(UNFINISHED, (trace,)) is not None:
            return True  # it will say another word, and is looked at again when that goes
        for id, queue, state, body, original in tx.all(RESPONSES_OF, (trace, self.left)):
            if not self.affords(3):
                return False
            tx.run("delete from responses where id = ?", (id,))
            tx.count("responses", queue, state, None)
            self._spend(1, body, original)
            self.done.responses += 1
        for id, message_id, queue, state, body in tx.all(MESSAGES_OF, (trace, self.left)):
            if not self._leave_runs(message_id) or not self.affords(3):
                return False
            tx.run("delete from questions where message = ?", (message_id,))
            waited = tx.one("delete from joins where message = ? returning body", (message_id,))
            tx.run("delete from messages where id = ?", (id,))
            tx.count("messages", queue, state, None)
            self._spend(1, body, waited[0] if waited else None)
            self.done.messages += 1
        # the event itself comes after it
        if not self.affords(4):
            return False
        tx.run(CLOSE_ARRIVAL, (tx.now, trace))
        tx.run("delete from spending where scope = 'trace' and subject = ?", (trace,))
        self._spend(2)
        return True

    def _leave_runs(self, message_id: str) -> bool:
        tx = self.tx
        for (run,) in tx.all("select run from run_messages where message = ? limit ?", (message_id, self.left)):
            if not self.affords(2):
                return False
            tx.run(LEAVE_RUN, (run, message_id))
            self._spend(1)
            if tx.one(REMOVE_RUN, (run,)) is not None:
                self._spend(1)
                self.done.runs += 1
        return True

    def remove_arrivals(self, before: int) -> None:
        """Arrivals that need not be recognised any more, if the lake has their texts as surely as those of events."""
        named = max(self._named, _mark(self.tx, PRUNED_BODY))
        if self._named:
            self.tx.run(WRITE_MARK, (PRUNED_BODY, named))
        for source, key, body in self.tx.all(OLD_ARRIVALS, (before, self.left)):
            if body > named or not self.affords(2):
                break
            self.tx.run("delete from arrivals where source = ? and key = ?", (source, key))
            self._spend(1, body)
            self.done.arrivals += 1
            self.tell = True

    def free_bodies(self) -> None:
        if self._bodies:
            free = self.tx.all(FREE_BODIES, (json.dumps(sorted(self._bodies)),))
            self.done.bodies = len(free)

    def _spend(self, rows: int, *bodies: int | None) -> None:
        """Each text that a row named may go with it: it is paid for now."""
        named = {body for body in bodies if body is not None}
        self._bodies |= named
        self.left -= rows + len(named)


def free_body(tx: OfficeTransaction, body: int | None) -> None:
    """A row has another text from now on: the old one goes if nobody else names it."""
    if body is not None:
        tx.settle()  # an event of this commit may name it
        tx.all(FREE_BODIES, (json.dumps([body]),))


def _goes_on(tx: OfficeTransaction, trace: str, seq: int) -> bool:
    """Whether the ledger has a later word on the trace."""
    return tx.one(GOES_ON, (trace, seq)) is not None


def _mark(tx: OfficeTransaction, name: str) -> int:
    row = tx.one(READ_MARK, (name,))
    return row[0] if row else 0
