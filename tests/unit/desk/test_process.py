"""A desk in a process, without an office around it: what it rings, and why it has to be ended."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manydesks.desk.base import Bells, Seat, Way
from manydesks.desk.logbook import Logbook
from manydesks.desk.process import Furniture, ProcessDesk
from manydesks.desk.sandboxes.limits import Limits
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.mail import Inbound
from manydesks.runner.providers.base import Endpoint
from manydesks.runner.providers.rehearsal import PROVIDER


class NoDoors:
    async def open(self, session: str, way: Way) -> Endpoint:
        raise AssertionError("nobody asked for one")

    async def close(self, session: str) -> None: ...

    def check(self, way: Way) -> str | None:
        return None


class Corner:
    def __init__(self, folder: Path, limits: Limits) -> None:
        self.rung: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self.folder = folder / "session"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        seat = Seat(
            session="session_12345678",
            agent="amy",
            agent_name="Amy",
            provider="rehearsal",
            model=None,
            folder=self.folder,
            workspace=self.workspace,
        )
        bells = Bells(
            started=lambda s: self.rung.put_nowait(("started",)),
            output=lambda s: self.rung.put_nowait(("output",)),
            ended=lambda s, failure: self.rung.put_nowait(("ended", failure)),
        )
        furniture = Furniture(
            provider=PROVIDER,
            options={},
            way=None,
            sandbox="none",
            box=Sandboxes().get("none").load(),
            isolates=False,
            limits=limits,
            # of its own: whoever leaves a desk ends all that bears its mark, also what another test started meanwhile
            office=secrets.token_hex(6),
            idle_seconds=60,
            log_level="warning",
        )
        log = folder / "logs" / "desk.log"
        self.desk = ProcessDesk(seat, bells, furniture, NoDoors(), lambda: Logbook(log, dict))
        self.desk.mailbox.prepare()

    def put(self, text: str, *, fence: int = 1) -> None:
        row = Inbound(
            id=f"msg_{fence}", run=f"run_{fence}", fence=fence, kind="chat", at=1, tries=1, content={"text": text}
        )
        self.desk.mailbox.put([row])
        self.desk.nudge()

    async def next(self, kind: str) -> tuple[Any, ...]:
        async with asyncio.timeout(30):
            while (rung := await self.rung.get())[0] != kind:
                pass
            return rung


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
async def corner(tmp_path: Path, limits: Limits) -> AsyncIterator[Corner]:
    made = Corner(tmp_path, limits)
    yield made
    await made.desk.stop()


async def test_it_rings_when_it_starts_and_when_it_has_written(corner: Corner) -> None:
    corner.put("!say hello")
    await corner.next("started")
    await corner.next("output")
    found = corner.desk.mailbox.collect(None, 0)
    assert found is not None
    assert [row.content["text"] for row in found.messages] == ["hello"]
    assert corner.desk.fault() is None


async def test_who_is_stopped_rings_no_more_and_somebody_else_can_sit_down(corner: Corner) -> None:
    corner.put("!hang")
    await corner.next("started")
    stopping = asyncio.create_task(corner.desk.stop())
    await asyncio.sleep(0)
    corner.desk.mailbox.withdraw(1)
    corner.put("!say next", fence=2)  # while the first is still on its way out
    await stopping
    await corner.next("started")
    await corner.next("output")
    found = corner.desk.mailbox.collect(None, 0)
    assert found is not None
    assert [ack.message for ack in found.acks] == ["msg_2"]
    assert corner.rung.empty()


@pytest.mark.parametrize("limits", [Limits(memory_bytes=1 << 20)])
async def test_who_uses_too_much_is_found_out(corner: Corner) -> None:
    assert corner.desk.fault() is None  # nobody sits there
    corner.put("!tool nothing {}\n!hang")
    await corner.next("output")  # it has all that it needs by now
    fault = await asyncio.to_thread(corner.desk.fault)
    assert fault is not None
    assert "MiB of memory; 1 MiB are allowed" in fault


async def test_a_folder_that_is_gone_or_another_one(corner: Corner) -> None:
    corner.put("!hang")
    await corner.next("started")
    shutil.move(corner.folder / "out", corner.folder / "away")
    assert "is gone" in str(corner.desk.fault())
    (corner.folder / "out").mkdir()
    assert "was replaced" in str(corner.desk.fault())


async def test_a_plan_that_cannot_be_carried_out_is_final(corner: Corner) -> None:
    corner.workspace.rmdir()
    corner.put("!say hello")
    _, failure = await corner.next("ended")
    assert isinstance(failure, Failure)
    assert failure.kind is FailureClass.PERMANENT
    assert "does not exist" in failure.reason


async def test_whatever_is_printed_only_rings(corner: Corner) -> None:
    """A desk may print what it likes, as much as it likes: nothing is kept of it, and nothing believed."""
    told: list[str] = []
    bells = replace(corner.desk._bells, progress=lambda session, text: told.append(text))
    corner.desk._bells = bells
    stdout = asyncio.StreamReader()
    listening = asyncio.create_task(corner.desk._listen(stdout))
    for printed in (
        b"x" * 300_000,
        b"{" * 300_000,
        b"\n",
        b'{"progress": "half',
        b' of it"}\n{"progress": 7}\n',
        b"\xff",
    ):
        stdout.feed_data(printed)
        await asyncio.sleep(0)
    stdout.feed_eof()
    await listening
    assert told == ["half of it"]
    rung = [corner.rung.get_nowait() for _ in range(corner.rung.qsize())]
    assert 1 <= len(rung) <= 6
    assert set(rung) == {("output",)}
