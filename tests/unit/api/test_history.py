"""Which history a reader has followed, over a real store that was put back from a backup, once and twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manydesks.api.history import check_history, history_of
from manydesks.domain.errors import LedgerPruned
from manydesks.settings.home import Home
from manydesks.store.reader import Reader
from manydesks.store.store import Store


class Office:
    """A backup of it is made in thought: it is put back with all that it has, and what came after it is no matter."""

    def __init__(self, home: Home) -> None:
        self.store = Store(home.office_db, durability="crash")
        self.reader = Reader(home.office_db, sockets=home.run)

    async def note(self, count: int) -> None:
        for number in range(count):
            await self.store.note("channel_down", channel="x", reason=str(number))

    async def put_back(self, lineage: int) -> None:
        await self.store.restored(lineage=lineage, made_at=1, made_by="0", desks={}, rule_of={}, lake=False)

    def parts(self, followed: str, place: int) -> int | None:
        """Where to read on; None: behind that place, as it was followed."""
        try:
            check_history(self.reader, followed, place)
        except LedgerPruned as pruned:
            return int(str(pruned.details["first"]))
        return None


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    home = Home(tmp_path)
    home.prepare()
    made = Office(home)
    yield made
    made.reader.close()
    made.store.close()


async def test_an_office_that_was_never_put_back_has_one_history(office: Office) -> None:
    await office.note(5)
    assert history_of(office.reader) == "0"
    assert office.parts("0", 5) is None
    assert office.parts("abc", 3) == 1, "one of another office"


async def test_what_was_read_after_the_backup_is_another_history(office: Office) -> None:
    await office.note(10)
    await office.put_back(0xAB)
    await office.note(20)
    assert history_of(office.reader) == "ab"
    assert office.parts("ab", 25) is None
    assert office.parts("0", 10) is None, "so far both are the same"
    assert office.parts("0", 11) == 11
    assert office.parts("0", 1000) == 11
    assert await office.store.lineage() == office.reader.lineage()


async def test_after_twice_each_parts_where_it_was_left(office: Office) -> None:
    await office.note(10)
    await office.put_back(0xAB)
    await office.note(9)
    await office.put_back(0xCD)
    await office.note(5)
    assert (office.parts("cd", 25), office.parts("ab", 20), office.parts("ab", 21)) == (None, None, 21)
    assert (office.parts("0", 10), office.parts("0", 15)) == (None, 11)
    assert office.parts("ef", 3) == 1, "one that was put back in between, of which the backup knows nothing"


async def test_where_they_part_may_be_pruned(office: Office) -> None:
    await office.note(10)
    await office.put_back(0xAB)
    await office.note(9)
    await office.store._do(lambda tx: tx.run("delete from events where seq <= 15"))
    await office.store._do(lambda tx: tx.run("insert or replace into marks (name, seq) values ('pruned', 15)"))
    assert office.parts("0", 18) == 16
    assert office.parts("ab", 18) is None
