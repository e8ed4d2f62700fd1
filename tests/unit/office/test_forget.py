"""Forgetting without a host: what lies in the store's free space, what others quote, what logs hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from manydesks.channels.packing import ANSWER
from manydesks.domain.envelope import Incoming
from manydesks.office.files import keep_text
from manydesks.office.forget import forget
from manydesks.settings.home import Home
from manydesks.store.store import Store

SECRET = "the vault opens with seventeen turns to the left"


@pytest.fixture
def place(home: Path) -> Home:
    found = Home(home)
    found.prepare()
    return found


@pytest.fixture
def store(place: Home) -> Iterator[Store]:
    made = Store(place.office_db, durability="crash")
    yield made
    made.close()


async def cancelled(store: Store, text: str, key: str = "api_00000001") -> str:
    if await store.is_new():
        await store.add_agent(id="ada", provider="rehearsal")
    incoming = Incoming(source="api", key=key, text=text, channel="console", platform_id="here")
    await store.accept(incoming, default_agent="ada", message_bytes=10_000)
    await store.cancel(key)
    return key


async def test_what_lies_in_free_space_goes_too(store: Store, place: Home) -> None:
    message = await cancelled(store, SECRET)
    careless = apsw.Connection(str(place.office_db))
    try:
        careless.execute("pragma secure_delete = off").fetchall()
        rows = [(f"{SECRET} {number}" + "." * 5_000,) for number in range(20)]
        with careless:
            careless.executemany("insert into bodies (text) values (?)", rows)
        with careless:
            careless.execute("delete from bodies where length(text) > 5000")
        careless.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        careless.close()
    assert SECRET.encode() in place.office_db.read_bytes()
    done = await forget(store, place, message, whole_trace=False, reset=False)
    assert (done.erased, done.left) == (1, None)
    assert SECRET.encode() not in place.office_db.read_bytes()


async def test_the_same_words_of_others_are_theirs(store: Store, place: Home) -> None:
    message = await cancelled(store, SECRET)
    await cancelled(store, f"I heard that {SECRET}", "api_00000002")
    done = await forget(store, place, message, whole_trace=False, reset=False)
    assert done.left is None
    assert SECRET.encode() in place.office_db.read_bytes()


async def test_what_a_plugin_said_of_it(store: Store, place: Home) -> None:
    message = await cancelled(store, SECRET)
    reason = f"ValueError: no plan for '{SECRET}'"
    await store.note("hook_failed", plugin="nosy", hook="on", reason=reason, times=1)
    log = place.logs / "plugins" / "nosy.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"a\n{reason}\nb\n")
    for again in (False, True):
        done = await forget(store, place, message, whole_trace=False, reset=False)
        assert done.logs == (() if again else ("logs/plugins/nosy.log",))
        assert done.left is not None
        assert done.left.startswith("the reason in 1 event quotes it (number ")
    assert "vault" not in log.read_text()
    assert (log.read_text()[:2], log.read_text()[-3:]) == ("a\n", "\nb\n")


async def test_words_in_rows_that_are_no_messages(store: Store, place: Home) -> None:
    """Written anew it is looked through once more: nothing is called gone that is not."""
    await store.add_agent(id="ada", provider="rehearsal")
    await store.add_team(id="web", name=SECRET, leader="ada", members=["ada"])
    message = await cancelled(store, SECRET)
    done = await forget(store, place, message, whole_trace=False, reset=False)
    assert done.left == "office.db has words of it in rows that are no message's (1 of them events)"


async def test_the_file_that_a_long_answer_came_as(store: Store, place: Home) -> None:
    message = await cancelled(store, SECRET)
    kept = keep_text(SECRET, ANSWER, place.files)
    other = keep_text("somebody else's", ANSWER, place.files)
    await forget(store, place, message, whole_trace=False, reset=False)
    assert not (place.path / kept.path).exists()
    assert (place.path / other.path).exists()


async def test_logs_keep_everything_else(store: Store, place: Home) -> None:
    text = f'short\n  {SECRET} "quoted" für alle\n'
    message = await cancelled(store, text)
    line = f'{SECRET} "quoted" für alle'
    before = f"a\n{line}|{json.dumps(line)}|{json.dumps(line, ensure_ascii=False)}\nshort\nb\n"
    log = place.logs / "host.log"
    log.write_text(before, encoding="utf-8")
    (place.logs / "link.log").symlink_to(log)
    done = await forget(store, place, message, whole_trace=False, reset=False)
    assert done.logs == ("logs/host.log",)
    after = log.read_text(encoding="utf-8")
    assert len(after.encode()) == len(before.encode())
    assert "vault" not in after
    assert [part for part in after.split("\n") if "*" not in part] == ["a", "short", "b", ""]
