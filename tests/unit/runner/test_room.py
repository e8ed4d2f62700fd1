from __future__ import annotations

import pytest

from manydesks.domain.errors import MailboxError, MailboxFull, MailboxTimeout
from manydesks.runner import room
from manydesks.runner.room import when_there_is_room


class Disk:
    def __init__(self, *errors: MailboxError) -> None:
        self.errors = list(errors)
        self.written = 0

    async def write(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        self.written += 1
        return "written"


async def test_a_full_disk_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "AGAIN_SECONDS", 0.0)
    disk = Disk(*(MailboxFull(path="outbound.db") for _ in range(3)))
    assert await when_there_is_room(disk.write) == "written"
    assert (disk.written, disk.errors) == (1, [])


async def test_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(MailboxTimeout(path="outbound.db", seconds=2))
    with pytest.raises(MailboxTimeout):
        await when_there_is_room(disk.write)
    assert disk.written == 0
