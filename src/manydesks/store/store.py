"""The store: every verb that changes the office's state. T1 to T4 are `accept`, `claim`, `take` and `settle`.

A verb is one transaction: all of it happens, with its ledger events, or none of it. No verb tells which `seq` it wrote.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from manydesks.domain.attachment import Taken
from manydesks.domain.budget import NO_BUDGET
from manydesks.domain.caps import Caps
from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.envelope import Accepted, Claimed, Incoming, Parcel, Progress, Work
from manydesks.domain.failure import Failure
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Collected
from manydesks.domain.routing import Directory
from manydesks.domain.turns import Turns
from manydesks.store import (
    agents,
    budgets,
    deliver,
    due,
    files,
    forget,
    hooks,
    lanes,
    letters,
    outgoing,
    pausing,
    proactive,
    questions,
    quotes,
    recover,
    reset,
    retention,
    stopping,
    teams,
    waits,
)
from manydesks.store.accept import accept, check, check_text
from manydesks.store.audit import AUDIT, audited, tell
from manydesks.store.boot import boot_id
from manydesks.store.claim import LEASE_MS, claim, claim_more
from manydesks.store.database import empty_log, named_errors, open_writer
from manydesks.store.deliver import Delivery
from manydesks.store.directory import directory
from manydesks.store.forget import Forgetting
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import OFFICE
from manydesks.store.outcome import Rules
from manydesks.store.restored import LINEAGE, Restored, restored
from manydesks.store.stopping import Cancelled
from manydesks.store.take import NO_FILES, cursors, run_died, run_released, take, was_flood
from manydesks.store.transaction import READ_MARK
from manydesks.store.writer import Writer

T = TypeVar("T")


class Store:
    """One office's state. Whoever opens it must hold the office's lock: there is one writing process."""

    def __init__(
        self,
        path: Path,
        *,
        durability: str = "power",
        clock: Clock | None = None,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        #: this process, in claims
        self.worker = f"host_{secrets.token_hex(6)}"
        #: what may be spent, from now on
        self.budget = NO_BUDGET
        clock = clock or SystemClock()
        self._turns = Turns()
        db = open_writer(path, durability)
        try:
            with named_errors(path):
                OFFICE.migrate(db, str(path), clock.now())
            self._writer = Writer(
                db, path, transaction=OfficeTransaction, clock=clock, boot=boot_id(), committed=committed
            )
        except BaseException:
            db.close()
            raise

    def close(self) -> None:
        self._writer.close()

    # T1

    async def accept(
        self, incoming: Incoming, *, default_agent: str, message_bytes: int, wait_ms: int = waits.WAIT_MS
    ) -> Accepted:
        """Store an arrival once, as the messages it is routed to. BadInput (and below it): nothing changed.

        `wait_ms`: how long a step of a chain, or a join, waits for what stands before it.
        """
        check(incoming, message_bytes)
        return await self._do(lambda tx: accept(tx, incoming, default_agent=default_agent, wait_ms=wait_ms))

    # T2

    async def claim(self, *, batch: int, most: int, max_attempts: int = 5, caps: Caps | None = None) -> list[Claimed]:
        """Begin up to `most` runs of up to `batch` messages each, fairly between agents, within the providers' caps."""

        def begin(tx: OfficeTransaction) -> list[Claimed]:
            if not due.see_to(tx, self.budget):
                return []
            return claim(
                tx,
                worker=self.worker,
                batch=batch,
                most=most,
                max_attempts=max_attempts,
                budget=self.budget,
                caps=caps,
                turns=self._turns,
            )

        return await self._do(begin)

    async def claim_more(
        self, claims: Sequence[tuple[str, int]], *, batch: int, max_attempts: int = 5
    ) -> dict[str, tuple[str, tuple[Work, ...]]]:
        """For each (session, fence) that is live: what has come since joins it. By session: the run, and what joined.

        One transaction for all: this is asked after every commit.
        """
        alone = min(2, max_attempts - 1)

        def more(tx: OfficeTransaction) -> dict[str, tuple[str, tuple[Work, ...]]]:
            joined = {
                session: claim_more(tx, session, fence, batch=batch, alone_after=alone, budget=self.budget)
                for session, fence in claims
            }
            return {session: found for session, found in joined.items() if found is not None}

        return await self._do(more)

    async def extend(self) -> None:
        """This worker lives: its claims do too."""
        await self._do(lambda tx: lanes.extend_all(tx, self.worker, LEASE_MS))

    async def next_timer(self) -> int | None:
        """In how many milliseconds the next waiting row becomes due; 0 or below: it is."""
        return await self._do(due.next_timer)

    # T3

    async def cursors(self, session: str) -> dict[str, int]:
        return await self._do(lambda tx: cursors(tx, session))

    async def take(self, session: str, found: Collected, rules: Rules, taken: Mapping[str, Taken] = NO_FILES) -> int:
        """Apply what a desk wrote. The fence of the session's latest run that has ended, 0 if none has.

        `taken`: what was taken, before this, of the files that rows name, by the row's id.

        Fences only grow, so a caller that learns this late still knows which of its claims is over.
        """
        return await self._do(lambda tx: take(tx, session, found, rules, taken))

    async def was_flood(self, session: str, fence: int) -> bool:
        """Whether the run of this claim has failed because it sent too many messages."""
        return await self._do(lambda tx: was_flood(tx, session, fence))

    async def run_died(self, session: str, fence: int, failure: Failure, rules: Rules) -> None:
        """The run ended without an answer to some of its messages: each counts an attempt."""
        await self._do(lambda tx: run_died(tx, session, fence, failure, rules))

    async def run_released(self, session: str, fence: int, reason: str) -> None:
        """The run is given up in good order: no attempt counts."""
        await self._do(lambda tx: run_released(tx, session, fence, reason))

    # budgets

    async def may_spend(self, session: str) -> str | None:
        """A sentence why the session's run may not call a model again; None: it may."""
        return await self._do(lambda tx: budgets.may_spend(tx, session, self.budget))

    async def meter(self, session: str, *, usd: float | None, tokens: int | None) -> None:
        """A call of the session went through the office's proxy; None: not known."""
        await self._do(lambda tx: budgets.meter(tx, session, usd, tokens, self.budget))

    # questions

    async def answer_question(self, id: str, answer: str, *, by: str, own_words: bool = False) -> dict[str, Any]:
        """A person's answer: an option (its value, label or number) or own words; never queued behind the question."""
        return await self._do(lambda tx: questions.answer(tx, id, answer, by=by, own_words=own_words))

    async def open_questions(self, limit: int = 1000) -> list[dict[str, Any]]:
        """Those that wait for a person, oldest first; `waited`: with its `session`, a run that is not stuck."""
        return await self._do(lambda tx: questions.open_questions(tx, limit))

    async def answers(self, session: str) -> list[dict[str, Any]]:
        """What a tool at the session's desk waits for, and is known by now: data for the mailbox's word `answer`.

        The same is given again until the desk has said that it heard.
        """
        return await self._do(lambda tx: questions.answers(tx, session))

    async def known_messages(self, ids: Sequence[str]) -> set[str]:
        """Which of these messages are there still; others were pruned, or never were."""
        return await self._do(lambda tx: files.messages(tx, ids))

    async def named_files(self) -> set[str]:
        """The paths of all files that a row names."""
        return await self._do(files.named)

    # T4

    async def claim_parcels(
        self,
        channels: Sequence[str],
        *,
        most: int,
        room: Mapping[str, int] = deliver.NOTHING,
        max_age_ms: Mapping[str, int] = deliver.NOTHING,
        there: Sequence[str] | None = None,
        why: Mapping[str, str] = deliver.NOTHING,
        settled: Sequence[tuple[Parcel, Delivery]] = (),
        limits: Limits | None = None,
    ) -> list[Parcel]:
        """The next response of each conversation of these channels; `room`: how many for one of them.

        What is due for a channel that is not `there` is held until it is; `why`: by channel, what is known of it.
        `settled`: sendings that have come to their end, each as by `settle`; before the others, in the same
        transaction.
        """

        def claim_next(tx: OfficeTransaction) -> list[Parcel]:
            for parcel, delivery in settled:
                deliver.settle_parcel(tx, parcel.id, parcel.fence, delivery, limits=limits)
            return deliver.claim_parcels(
                tx, channels, worker=self.worker, most=most, room=room, max_age_ms=max_age_ms, there=there, why=why
            )

        return await self._do(claim_next)

    async def piece_sent(self, parcel: Parcel, receipt: str, progress: Progress) -> bool:
        """A piece is out, others follow. False: the claim was no longer ours."""
        return await self._do(lambda tx: deliver.piece_sent(tx, parcel.id, parcel.fence, receipt, progress))

    async def settle(self, parcel: Parcel, delivery: Delivery, *, limits: Limits | None = None) -> bool:
        """What became of a sending. False: the claim was no longer ours. `limits` bind the note about a dead one."""
        return await self._do(lambda tx: deliver.settle_parcel(tx, parcel.id, parcel.fence, delivery, limits=limits))

    async def expire_responses(self, max_age_ms: Mapping[str, int], default_ms: int) -> int:
        """What is held, and what nobody fetches, expires when it is too old; how many, up to a bound."""
        return await self._do(lambda tx: deliver.expire(tx, max_age_ms, default_ms))

    async def fetch_responses(
        self, channel: str, *, limit: int = 100, instance: str | None = None, after: int = 0
    ) -> list[dict[str, Any]]:
        """What waits for the clients of a channel; each comes again until it is acknowledged."""
        return await self._do(lambda tx: outgoing.fetch(tx, channel, limit=limit, instance=instance, after=after))

    async def acknowledge(self, response: int) -> bool:
        """A client has it. False: that was known."""
        return await self._do(lambda tx: outgoing.acknowledge(tx, response))

    async def say(self, **response: Any) -> dict[str, Any]:
        """A response that answers nothing; `store/proactive.py` says what it takes."""
        return await self._do(lambda tx: proactive.say(tx, **response))

    async def resend(self, response: int) -> None:
        """A dead, unsure or expired response gets new attempts."""
        await self._do(lambda tx: outgoing.resend(tx, response))

    async def drop_response(self, response: int) -> None:
        await self._do(lambda tx: outgoing.drop(tx, response))

    # recovery

    async def open_runs(self) -> list[tuple[str, str, int]]:
        """(agent, session, fence) of what earlier incarnations left under way."""
        return await self._do(lambda tx: recover.open_runs(tx, self.worker))

    async def release(self, rules: Rules, rule_of: Mapping[str, str]) -> int:
        return await self._do(lambda tx: recover.release(tx, self.worker, rules, rule_of))

    # people and letters

    async def tell_past(self, events: Sequence[tuple[int, str | None, tuple[Any, ...]]]) -> None:
        """Events of another time, in bulk: the arguments of `OfficeTransaction.past`. One transaction."""

        def tell(tx: OfficeTransaction) -> None:
            for event in events:
                tx.past(*event)

        await self._do(tell)

    async def is_new(self) -> bool:
        """Whether there never was an agent."""
        return await self._do(lambda tx: tx.one("select 1 from agents limit 1") is None)

    async def add_agent(self, **card: Any) -> dict[str, Any]:
        return await self._do(lambda tx: agents.add_agent(tx, **card))

    async def remove_agent(self, id: str) -> dict[str, Any]:
        return await self._do(lambda tx: agents.remove_agent(tx, id))

    async def pause(self, id: str) -> bool:
        """The agent begins no more runs; what runs goes on. False: it was paused before."""
        return await self._do(lambda tx: agents.pause(tx, id))

    async def resume(self, id: str) -> bool:
        return await self._do(lambda tx: agents.resume(tx, id))

    async def edit_agent(
        self, id: str, changes: Mapping[str, Any], *, version: str | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Change what is given; the card before and after. `version`: what was read, else `Stale`."""
        return await self._do(lambda tx: agents.edit_agent(tx, id, changes, version=version))

    async def agent(self, id: str) -> dict[str, Any]:
        """An agent's card."""
        return await self._do(lambda tx: agents.get_agent(tx, id))

    async def reset_agent(self, id: str) -> list[dict[str, Any]]:
        """The agent's sessions end and begin anew with what waits; one entry for each."""
        return await self._do(lambda tx: reset.reset_agent(tx, id))

    async def directory(self) -> Directory:
        """Who can be addressed, and by whom."""
        return await self._do(directory)

    async def add_team(self, **team: Any) -> dict[str, Any]:
        return await self._do(lambda tx: teams.add_team(tx, **team))

    async def edit_team(self, id: str, **changes: Any) -> dict[str, Any]:
        """Change what is given; the team afterwards."""
        return await self._do(lambda tx: teams.edit_team(tx, id, **changes))

    async def remove_team(self, id: str) -> dict[str, Any]:
        return await self._do(lambda tx: teams.remove_team(tx, id))

    async def retry(self, message_id: str, text: str | None = None, *, message_bytes: int = 262_144) -> None:
        """A dead message gets new attempts; `text` edits it first, within `message_bytes`."""
        if text is not None:
            check_text(text, message_bytes)
        await self._do(lambda tx: letters.retry(tx, message_id, text=text))

    async def release_held(self, message_id: str) -> str:
        """A held message goes on; its status then."""
        return await self._do(lambda tx: letters.release(tx, message_id))

    async def drop(self, message_id: str) -> None:
        await self._do(lambda tx: letters.drop(tx, message_id))

    async def cancel(self, id: str, *, host: bool = False) -> Cancelled:
        """A message, a run, a session or a trace shall not go on; a step of it. `host`: there is one to end runs."""
        return await self._do(lambda tx: stopping.cancel(tx, id, host=host))

    async def cancel_all(self, agent: str | None = None, *, host: bool = False) -> Cancelled:
        """Nothing of this agent, or of all of them, shall go on; a step of it."""
        return await self._do(lambda tx: stopping.cancel_all(tx, agent, host=host))

    async def pause_office(self) -> bool:
        """Nothing begins any more, until somebody resumes it; what runs goes on. False: it was paused before."""
        return await self._do(pausing.pause_office)

    async def resume_office(self) -> bool:
        return await self._do(pausing.resume_office)

    # hooks

    async def hooked(self, session: str, rows: Sequence[tuple[str, str, str | None]]) -> dict[str, dict[str, Any]]:
        """Of a desk's rows (id, run, what it answers) those of a run under way: what they answer, by id."""
        return await self._do(lambda tx: hooks.answered(tx, session, rows))

    async def listener_mark(self, plugin: str) -> int:
        """How far a plugin was told of the ledger; one that is new begins at its head."""
        return await self._do(lambda tx: hooks.listener_mark(tx, plugin))

    async def move_listener(self, plugin: str, seq: int) -> None:
        await self._do(lambda tx: hooks.move_listener(tx, plugin, seq))

    # the ledger

    async def note(self, kind: str, **fields: Any) -> None:
        """An event that no row belongs to: the host came up, a runner sat down."""
        await self._do(lambda tx: tx.event(kind, **fields))

    async def audit(self) -> None:
        """A surface has changed a file, which is no row: that stands in the ledger all the same, once."""
        said = AUDIT.get()
        if said is not None and not said.told:
            await self._writer.call(lambda tx: tell(tx, said))

    async def head(self) -> int:
        """The number of the last event."""
        return await self._do(lambda tx: int((tx.one("select seq from ledger_head") or (0,))[0]))

    async def mark_archived(self, seq: int) -> int:
        """The lake covers the ledger up to here. Never moves back; never beyond the head."""

        def move(tx: OfficeTransaction) -> int:
            tx.run(
                "insert into marks (name, seq) values ('archived', min(?1, (select seq from ledger_head))) "
                "on conflict (name) do update set seq = max(seq, excluded.seq)",
                (seq,),
            )
            row = tx.one("select seq from marks where name = 'archived'")
            return int(row[0]) if row else 0

        return await self._do(move)

    async def prune(
        self,
        *,
        keep_ms: int,
        require_archive: bool,
        lake: retention.Reach | None = None,
        most: int = retention.STEP,
        arrival_ms: int = retention.ARRIVAL_MS,
    ) -> retention.Pruned:
        """One small step of retention: at most `most` rows that are old, ended and, if so ruled, in the lake."""
        rules = {"keep_ms": keep_ms, "most": most, "arrival_ms": arrival_ms}
        return await self._do(lambda tx: retention.prune(tx, require_archive=require_archive, lake=lake, **rules))

    # forgetting

    async def forgettable(self, message_id: str, *, whole_trace: bool) -> Forgetting:
        """What belongs to a message that has ended, or to its trace. Nothing is changed."""
        return await self._do(lambda tx: forget.forgettable(tx, message_id, whole_trace=whole_trace))

    async def forget(self, message_id: str, *, whole_trace: bool) -> int:
        """Empty its texts, and those of the answers to it; how many. Their bytes are gone after `empty_log`."""
        return await self._do(lambda tx: forget.forget(tx, message_id, whole_trace=whole_trace))

    async def held_by(self, pieces: Sequence[str]) -> list[int]:
        """Texts that hold one of these pieces still."""
        return await self._do(lambda tx: forget.holders(tx, pieces))

    async def events_with(self, pieces: Sequence[str]) -> int:
        """How many events hold one of these pieces. Reads all of them."""
        return await self._do(lambda tx: quotes.holding(tx, pieces))

    async def empty_log(self) -> bool:
        """Move all that was committed into office.db, and cut its log to nothing. False: a reader is in the way."""
        return await asyncio.to_thread(self._writer.outside, empty_log)

    async def rewrite(self) -> None:
        """Write the whole file anew, without what was left over in it; nobody writes meanwhile."""
        await asyncio.to_thread(self._writer.outside, lambda db: db.execute("vacuum").fetchall())

    async def restored(self, **found: Any) -> Restored:
        """Once, after the store was put back from a backup and before the office opens."""
        return await self._do(lambda tx: restored(tx, **found))

    async def lineage(self) -> str | None:
        """How this office's history is called since it was last put back from a backup; None: it never was."""
        row = await self._do(lambda tx: tx.one(READ_MARK, (LINEAGE,)))
        return f"{row[0]:x}" if row else None

    async def _do(self, operation: Callable[[OfficeTransaction], T]) -> T:
        return await self._writer.call(audited(operation))
