"""The audit says what is wrong: an office's books are damaged in one place after the other."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from manydesks.testing.audit import complaints
from manydesks.testing.office import OfficeProcess


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an office that had some work, and is closed."""
    home = tmp_path_factory.mktemp("md") / "home"
    office = OfficeProcess(home)
    try:
        office.start()
        for agent in ("amy", "ben"):
            office.door.ask("agent_add", id=agent)
        office.ask("[@amy: !say a] [@ben: !say b] => [@amy: !say both]")
        office.ask("!say [@ben: !say over]", to="amy")
        office.ask("!fail permanent no ink", to="amy")
        assert office.stop() == 0
    finally:
        office.kill()
    return home / "office.db"


def test_good_books(books: Path) -> None:
    assert complaints(books) == []


RUN = "(select run from messages where state = 3 order by id limit 1)"
DAMAGE = {
    "the ledger has a gap": "delete from events where seq = 7",
    "claims": "insert into claims (fence, lane, worker, until, boot) values (999, 'x', 'y', 0, 'z')",
    "open runs": f"update runs set ended_at = null where id = {RUN}",
    "moving messages": "update messages set state = 0 where id = 1",
    "texts that are named": "delete from bodies where id = (select body from messages where id = 1)",
    "and the ledger says": "update messages set state = 4 where id = 1",
    "cannot go from": "update events set kind = 'message_completed' where kind = 'message_received'",
    "response 1 is": "update responses set state = 5 where id = 1",
    "begins in": "update events set kind = 'chain_step_start' where kind = 'chain_step_done'",
    "answered by two runs": "update responses set message_id = (select message_id from responses where id = 2), "
    "part = 77 where id = 1",
    "completed without an answer": "update responses set message_id = 'other' where id = 1",
    "dead without a word": "update responses set operation = 'message' where operation = 'notice'",
    "waits for what has ended": "update joins set ended_at = null, state = 0",
    "a part is answered, and is not": "update messages set state = 5 where message_id in "
    "(select message from join_parts)",
    "the counter": "update counters set n = n + 1",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_seen(books: Path, tmp_path: Path, what: str) -> None:
    copy = tmp_path / "office.db"
    shutil.copy(books, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as db:
        assert db.execute(DAMAGE[what]).rowcount > 0
    assert any(what in said for said in complaints(copy)), complaints(copy)
