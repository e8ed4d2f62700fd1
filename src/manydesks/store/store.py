"""The store: every verb that changes the office's state. T1 to T4 are `accept`, `claim`, `take` and `settle`.

A verb is one transaction: all of it happens, with its ledger events, or none of it. No verb tells which `seq` it wrote.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from manydesks.domain.attachment import Taken
from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.envelope import Accepted, Claimed, Incoming, Parcel, Work
from manydesks.domain.failure import Failure
from manydesks.domain.mail import Collected
from manydesks.store import agents, deliver, files, lanes, letters, questions, recover, retention
from manydesks.store.accept import MESSAGES, accept, check_text
from manydesks.store.boot import boot_id
from manydesks.store.claim import LEASE_MS, claim, claim_more
from manydesks.store.database import named_errors, open_writer
from manydesks.store.deliver import Delivery
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import OFFICE
from manydesks.store.outcome import Rules
from manydesks.store.respond import RESPONSES
from manydesks.store.take import NO_FILES, cursors, run_died, run_released, take, was_flood
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
        clock = clock or SystemClock()
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

    async def accept(self, incoming: Incoming, *, default_agent: str, message_bytes: int) -> Accepted:
        """Store an arrival once, as the messages it is routed to. BadInput (and below it): nothing changed."""
        return await self._do(lambda tx: accept(tx, incoming, default_agent=default_agent, message_bytes=message_bytes))

    # T2

    async def claim(self, *, batch: int, most: int, max_attempts: int = 5) -> list[Claimed]:
        """Begin up to `most` runs of up to `batch` messages each."""

        def begin(tx: OfficeTransaction) -> list[Claimed]:
            questions.expire(tx)
            return claim(tx, worker=self.worker, batch=batch, most=most, max_attempts=max_attempts)

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
                session: claim_more(tx, session, fence, batch=batch, alone_after=alone) for session, fence in claims
            }
            return {session: found for session, found in joined.items() if found is not None}

        return await self._do(more)

    async def extend(self) -> None:
        """This worker lives: its claims do too."""
        await self._do(lambda tx: lanes.extend_all(tx, self.worker, LEASE_MS))

    async def next_timer(self) -> int | None:
        """In how many milliseconds the next waiting row becomes due; 0 or below: it is."""

        def earliest(tx: OfficeTransaction) -> int | None:
            timers = (MESSAGES.next_timer(tx), RESPONSES.next_timer(tx), questions.next_expiry(tx))
            return min((timer for timer in timers if timer is not None), default=None)

        return await self._do(earliest)

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

    async def claim_parcels(self, channels: list[str], *, most: int) -> list[Parcel]:
        return await self._do(lambda tx: deliver.claim_parcels(tx, channels, worker=self.worker, most=most))

    async def settle(self, parcel: Parcel, delivery: Delivery) -> bool:
        """What became of a sending. False: the claim was no longer ours."""
        return await self._do(lambda tx: deliver.settle_parcel(tx, parcel.id, parcel.fence, delivery))

    # recovery

    async def open_runs(self) -> list[tuple[str, str, int]]:
        """(agent, session, fence) of what earlier incarnations left under way."""
        return await self._do(lambda tx: recover.open_runs(tx, self.worker))

    async def release(self, rules: Rules, rule_of: Mapping[str, str]) -> int:
        return await self._do(lambda tx: recover.release(tx, self.worker, rules, rule_of))

    # people and letters

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

    async def add_team(self, **team: Any) -> None:
        await self._do(lambda tx: agents.add_team(tx, **team))

    async def retry(self, message_id: str, text: str | None = None, *, message_bytes: int = 262_144) -> None:
        """A dead message gets new attempts; `text` edits it first, within `message_bytes`."""
        if text is not None:
            check_text(text, message_bytes)
        await self._do(lambda tx: letters.retry(tx, message_id, text=text))

    async def release_held(self, message_id: str) -> None:
        await self._do(lambda tx: letters.release(tx, message_id))

    async def drop(self, message_id: str) -> None:
        await self._do(lambda tx: letters.drop(tx, message_id))

    async def cancel(self, message_id: str) -> None:
        """A pending or held message never begins."""
        await self._do(lambda tx: letters.cancel(tx, message_id))

    # the ledger

    async def note(self, kind: str, **fields: Any) -> None:
        """An event that no row belongs to: the host came up, a runner sat down."""
        await self._do(lambda tx: tx.event(kind, **fields))

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
        self, *, keep_ms: int, require_archive: bool, most: int = retention.STEP, arrival_ms: int = retention.ARRIVAL_MS
    ) -> retention.Pruned:
        """One small step of retention: at most `most` rows that are old, ended and, if so ruled, in the lake."""
        return await self._do(
            lambda tx: retention.prune(
                tx, keep_ms=keep_ms, require_archive=require_archive, most=most, arrival_ms=arrival_ms
            )
        )

    async def _do(self, operation: Callable[[OfficeTransaction], T]) -> T:
        return await self._writer.call(operation)
