"""Lists of messages: oldest first, page by page, through the index that finds them; and one message in full."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.domain.states import MessageState
from manydesks.store.listing import FOUND_BY, listing


async def one_of_each(office: Any) -> dict[str, str]:
    completed = await office.sent("done", to="ada")
    (claimed,) = await office.claim()
    await office.desk(claimed).say("hi").ack(completed).take()
    dead = await office.sent("lost", to="bob")
    (claimed,) = await office.claim()
    await office.desk(claimed).fail(dead, "permanent", "bad key").take()
    cancelled = await office.sent("never", to="cyd")
    await office.store.cancel(cancelled)
    processing = await office.sent("now", to="ada")
    await office.claim()
    pending = await office.sent("soon", to="ada")
    return {
        "completed": completed, "dead": dead, "cancelled": cancelled, "processing": processing, "pending": pending,
    }  # fmt: skip


async def test_all_of_them_oldest_first(office: Any, reader: Any) -> None:
    made = await one_of_each(office)
    found = reader.messages()
    assert [(row["messageId"], row["status"]) for row in found] == [(id, status) for status, id in made.items()]
    assert [row["messageId"] for row in reader.messages(agent="ada")] == [
        made["completed"], made["processing"], made["pending"],
    ]  # fmt: skip
    assert (found[1]["reason"], found[1]["attempts"], found[1]["text"]) == ("bad key", 1, "lost")
    # as of one message: runs that were begun, whatever became of them
    assert [row["attempts"] for row in found] == [reader.message(row["messageId"])["attempts"] for row in found]
    assert [row["attempts"] for row in found] == [1, 1, 0, 1, 0]


async def test_by_state(office: Any, reader: Any) -> None:
    made = await one_of_each(office)
    for state in MessageState:
        wanted = [made[state.name.lower()]] if state != MessageState.HELD else []
        assert [row["messageId"] for row in reader.messages(state=state)] == wanted
        assert reader.messages(state=state, agent="nobody") == []


async def test_pages_meet_without_a_gap(office: Any, reader: Any) -> None:
    for n in range(25):
        await office.sent(str(n), to=("ada", "bob")[n % 2], priority=n % 3)
    for asked in ({}, {"agent": "bob"}, {"state": MessageState.PENDING}):
        seen, after = [], 0
        while page := reader.messages(after=after, limit=4, **asked):
            assert len(page) <= 4
            seen += [row["id"] for row in page]
            after = page[-1]["id"]
        assert seen == sorted(seen)
        assert len(seen) == (12 if "agent" in asked else 25)


@pytest.mark.parametrize("state", FOUND_BY)
async def test_what_is_rare_is_found_by_its_index(office: Any, reader: Any, state: MessageState) -> None:
    for agent in (None, "ada"):
        sql, values = listing(agent=agent, state=state, after=0, limit=10)
        plan = [detail for *_, detail in reader._db.execute(f"explain query plan {sql}", values).fetchall()]
        assert any(f"INDEX {FOUND_BY[state][0]}" in step for step in plan), plan
        assert "SCAN messages" not in [step for step in plan if "INDEX" not in step]


async def test_a_message_in_full(office: Any, reader: Any) -> None:
    ids = [await office.sent(f"message {n}") for n in range(4)]
    (claimed,) = await office.claim(batch=1)
    await office.store.pause("ada")
    found = reader.letter(ids[3], most=2)
    assert (found["text"], found["status"], found["before"], found["agentPaused"]) == ("message 3", "pending", 3, True)
    assert found["waitsFor"] == [
        {"messageId": ids[0], "status": "processing", "sender": "you"},
        {"messageId": ids[1], "status": "pending", "sender": "you"},
    ]
    running = reader.letter(ids[0])
    assert (running["before"], running["waitsFor"], running["runs"][0]["id"]) == (0, [], claimed.run)
    assert reader.letter("api_nothere") is None


async def test_a_back_off_is_shown_while_it_lasts(office: Any, reader: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.fail(message).take()
    found = reader.letter(message)
    assert found["notBefore"] is not None
    assert (found["lastError"], found["before"]) == ("no luck", 0)
