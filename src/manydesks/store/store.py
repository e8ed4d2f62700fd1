"""The store: every verb that changes the office's state. T1 to T4 are `accept`, `claim`, `take` and `settle`.

A verb is one transaction: all of it happens, with its ledger events, or none of it. No verb tells which `seq` it wrote.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.envelope import Accepted, Claimed, Incoming, Parcel
from manydesks.domain.failure import Failure
from manydesks.domain.mail import Collected
from manydesks.store import agents, deliver, lanes, letters, recover
from manydesks.store.accept import MESSAGES, accept, check_text
from manydesks.store.claim import LEASE_MS, claim
from manydesks.store.database import named_errors, open_writer
from manydesks.store.deliver import Delivery
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import migrate
from manydesks.store.outcome import Rules
from manydesks.store.respond import RESPONSES
from manydesks.store.take import cursors, run_died, run_released, take
from manydesks.store.writer import Writer

T = TypeVar("T")


def boot_id() -> str:
    """Leases count on this boot's clock; after another boot they are over."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


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
                migrate(db, str(path), clock.now())
        except BaseException:
            db.close()
            raise
        self._writer = Writer(db, path, transaction=OfficeTransaction, clock=clock, boot=boot_id(), committed=committed)

    def close(self) -> None:
        self._writer.close()

    # T1

    async def accept(self, incoming: Incoming, *, default_agent: str, message_bytes: int) -> Accepted:
        """Store an arrival once, as the messages it is routed to. BadInput (and below it): nothing changed."""
        return await self._do(lambda tx: accept(tx, incoming, default_agent=default_agent, message_bytes=message_bytes))

    # T2

    async def claim(self, *, batch: int, most: int, max_attempts: int = 5) -> list[Claimed]:
        """Begin up to `most` runs of up to `batch` messages each."""
        return await self._do(
            lambda tx: claim(tx, worker=self.worker, batch=batch, most=most, max_attempts=max_attempts)
        )

    async def extend(self) -> None:
        """This worker lives: its claims do too."""
        await self._do(lambda tx: lanes.extend_all(tx, self.worker, LEASE_MS))

    async def next_timer(self) -> int | None:
        """When the next waiting row becomes due, ms UTC."""

        def earliest(tx: OfficeTransaction) -> int | None:
            return min((t for t in (MESSAGES.next_timer(tx), RESPONSES.next_timer(tx)) if t is not None), default=None)

        return await self._do(earliest)

    # T3

    async def cursors(self, session: str) -> dict[str, int]:
        return await self._do(lambda tx: cursors(tx, session))

    async def take(self, session: str, found: Collected, rules: Rules) -> int:
        """Apply what a desk wrote. The fence of the session's latest run that has ended, 0 if none has.

        Fences only grow, so a caller that learns this late still knows which of its claims is over.
        """
        return await self._do(lambda tx: take(tx, session, found, rules))

    async def run_died(self, session: str, fence: int, failure: Failure, rules: Rules) -> None:
        """The run ended without an answer to some of its messages: each counts an attempt."""
        await self._do(lambda tx: run_died(tx, session, fence, failure, rules))

    async def run_released(self, session: str, fence: int, reason: str) -> None:
        """The run is given up in good order: no attempt counts."""
        await self._do(lambda tx: run_released(tx, session, fence, reason))

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

    async def _do(self, operation: Callable[[OfficeTransaction], T]) -> T:
        return await self._writer.call(operation)
