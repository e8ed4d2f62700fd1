"""An office's store on a real file, with a clock that is moved by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.envelope import Accepted, Claimed, Incoming
from manydesks.domain.failure import RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Ack, Collected, Outbound, Step
from manydesks.store.database import open_reader, open_writer
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import OFFICE
from manydesks.store.outcome import Rules
from manydesks.store.reader import Reader
from manydesks.store.store import Store
from manydesks.store.writer import Writer
from manydesks.testing.clock import ManualClock

EPOCH = "ab" * 16


def trouble(path: Path) -> list[str]:
    """What of the promises that hold between any two transactions does not."""
    db = open_reader(path)
    try:
        found: list[str] = []

        def none_of(what: str, sql: str) -> None:
            found.extend(f"{what}: {row}" for row in db.execute(sql).fetchall())

        for table in ("messages", "responses"):
            claimed = "exists (select 1 from claims c where c.lane = t.lane)"
            head = f"(select min(position) from {table} h where h.lane = t.lane and h.state = 0 and h.trigger = 1)"
            none_of(
                f"{table}: marked, but not the head of an unclaimed lane",
                f"select id from {table} t where ready <> 0 and (state <> 0 or {claimed} or position <> {head})",
            )
            none_of(
                f"{table}: the head of an unclaimed lane is not marked",
                f"select id from {table} t where ready = 0 and state = 0 and not {claimed} and position = {head}",
            )
            none_of(
                f"{table}: a timer without a moment", f"select id from {table} where ready = 2 and not_before is null"
            )
            none_of(
                f"{table}: under way without its claim",
                f"select id from {table} t where state = 1 "
                "and not exists (select 1 from claims c where c.fence = t.fence and c.lane = t.lane)",
            )
            none_of(
                f"{table}: counters",
                f"select coalesce(c.agent, r.queue), coalesce(c.state, r.state), c.n, r.n from "
                f"(select queue, state, count(*) n from {table} group by queue, state) r full join "
                f"(select agent, state, n from counters where scope = '{table}') c "
                "on c.agent = r.queue and c.state = r.state where coalesce(c.n, 0) <> coalesce(r.n, 0)",
            )
        none_of(
            "a claim of nothing",
            "select fence from claims c where not exists (select 1 from messages where fence = c.fence and state = 1) "
            "and not exists (select 1 from responses where fence = c.fence and state = 1) "
            # but for a run that was stopped, and has not ended yet
            "and not exists (select 1 from runs r where r.fence = c.fence and r.outcome = 'cancelled')",
        )
        none_of(
            "a gap in the ledger",
            "select h.seq, p.seq, count(e.seq), max(e.seq) from ledger_head h left join events e on true "
            "left join marks p on p.name = 'pruned' group by h.seq "
            "having h.seq <> count(e.seq) + coalesce(p.seq, 0) or h.seq <> coalesce(max(e.seq), 0)",
        )
        none_of(
            "an open run without its claim",
            "select id from runs r where (ended_at is null) <> exists (select 1 from claims c where c.fence = r.fence)",
        )
        return found
    finally:
        db.close()


class Desk:
    """Writes pages as the desk of one run would; everything about them can be forged."""

    def __init__(self, office: Office, session: str, run: str, fence: int) -> None:
        self.office = office
        self.session = session
        self.run = run
        self.fence = fence
        self._rows: list[Any] = []

    def say(self, text: Any, *, to: str | None = None, content: dict[str, Any] | None = None, id: str = "") -> Desk:
        seq = self._seq()
        self._rows.append(
            Outbound(
                id=id or f"out_{seq}", seq=seq, run=self.run, fence=self.fence, in_reply_to=to, at=1, kind="chat",
                content={"text": text} if content is None else content,
            )
        )  # fmt: skip
        return self

    def ack(self, message: str, status: Any = "completed", failure: Any = None, **more: Any) -> Desk:
        self._rows.append(
            Ack(
                message=message,
                seq=self._seq(),
                run=self.run,
                fence=self.fence,
                status=status,
                at=1,
                failure=failure,
                **more,
            )
        )
        return self

    def fail(self, message: str, kind: str = "transient", reason: str = "no luck", **more: Any) -> Desk:
        return self.ack(message, "failed", kind, reason=reason, **more)

    def step(self, type: str, *, run: str | None = None, **data: Any) -> Desk:
        self._rows.append(Step(seq=self._seq(), run=run or self.run, at=1, type=type, data=data))
        return self

    def page(self, *, epoch: str = EPOCH, state: dict[str, str] | None = None) -> Collected:
        rows, self._rows = self._rows, []
        return Collected(
            epoch=epoch,
            last_seq=max((row.seq for row in rows), default=self.office.seqs.get(self.session, 0)),
            messages=tuple(row for row in rows if isinstance(row, Outbound)),
            acks=tuple(row for row in rows if isinstance(row, Ack)),
            steps=tuple(row for row in rows if isinstance(row, Step)),
            state=state or {},
        )

    async def take(self, **more: Any) -> int:
        return await self.office.store.take(self.session, self.page(**more), self.office.rules)

    def _seq(self) -> int:
        seq = self.office.seqs[self.session] = self.office.seqs.get(self.session, -1) + 2
        return seq


class Office:
    """A store, driven by its verbs; what it holds is read on a connection of its own."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.path = path
        self.clock = clock
        self.rules = Rules(retry=RetryPolicy(jitter=0.0), limits=Limits(), rng=random.Random(1))
        self.seqs: dict[str, int] = {}
        self._keys = itertools.count(1)
        self.store = Store(path, durability="crash", clock=clock)

    async def reopen(self) -> None:
        """Another incarnation of the host; the first one was killed, its claims are still there."""
        self.store.close()
        self.store = Store(self.path, durability="crash", clock=self.clock)

    async def send(self, text: str, *, key: str | None = None, **more: Any) -> Accepted:
        key = f"api_{next(self._keys):08d}" if key is None else key
        usual = {"source": "api", "channel": "console", "platform_id": "here"}
        incoming = Incoming(key=key, text=text, **{**usual, **more})
        return await self.store.accept(incoming, default_agent="ada", message_bytes=1000)

    async def sent(self, text: str = "hello", **more: Any) -> str:
        return (await self.send(text, **more)).messages[0]["messageId"]

    async def claim(self, *, batch: int = 10, most: int = 10) -> list[Claimed]:
        return await self.store.claim(batch=batch, most=most)

    async def begin(self, *, batch: int = 10) -> tuple[Claimed, Desk]:
        """Exactly one run."""
        (claimed,) = await self.claim(batch=batch)
        return claimed, self.desk(claimed)

    def desk(self, claimed: Claimed, *, run: str | None = None, fence: int | None = None) -> Desk:
        return Desk(self, claimed.session, run or claimed.run, claimed.fence if fence is None else fence)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        db = open_reader(self.path)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    def row(self, sql: str, *values: Any) -> tuple[Any, ...]:
        (row,) = self.rows(sql, *values)
        return row

    def one(self, sql: str, *values: Any) -> Any:
        (value,) = self.row(sql, *values)
        return value

    def status(self, message_id: str) -> str:
        return str(self.one("select status from messages where message_id = ?", message_id))

    def statuses(self) -> list[str]:
        return [status for (status,) in self.rows("select status from messages order by id")]

    def responses(self) -> list[tuple[str, str, str]]:
        """(status, operation, text), oldest first."""
        return self.rows("select status, operation, text from responses_text order by id")

    def kinds(self, after: int = 0) -> list[str]:
        return [kind for (kind,) in self.rows("select kind from events where seq > ? order by seq", after)]

    def head(self) -> int:
        return int(self.one("select seq from ledger_head"))

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All tables, to see that nothing has changed."""
        tables = [name for (name,) in self.rows("select name from sqlite_schema where type = 'table'")]
        return {table: self.rows(f"select * from {table}") for table in tables}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "office.db"


@pytest.fixture
def writer(path: Path, clock: ManualClock) -> Iterator[Writer]:
    db = open_writer(path, "crash")
    OFFICE.migrate(db, str(path), clock.now())
    made = Writer(db, path, transaction=OfficeTransaction, clock=clock, boot="this boot")
    yield made
    made.close()


@pytest.fixture
async def office(path: Path, clock: ManualClock) -> AsyncIterator[Office]:
    """Three agents without a team; whatever a test does, the store's promises hold at its end."""
    made = Office(path, clock)
    for agent in ("ada", "bob", "cyd"):
        await made.store.add_agent(id=agent, provider="rehearsal")
    yield made
    made.store.close()
    assert trouble(path) == []


@pytest.fixture
def reader(office: Office, tmp_path: Path) -> Iterator[Reader]:
    made = Reader(office.path, sockets=tmp_path)
    yield made
    made.close()
