"""T2: who begins when not all can: fairly between agents, within the caps of providers, nobody while it is paused."""

from __future__ import annotations

from collections import Counter
from typing import Any

from manydesks.domain.caps import Caps
from manydesks.store.accept import MESSAGES
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.places import session


async def in_lanes(office: Any, agent: str, lanes: int, *, each: int = 1, **more: Any) -> None:
    """Messages of one agent in sessions of its own for so many places."""

    def move(tx: OfficeTransaction, message: str, lane: str) -> None:
        (row,) = tx.one("select id from messages where message_id = ?", (message,)) or ()
        (before,) = tx.one("select lane from messages where id = ?", (row,)) or ()
        tx.run("update messages set session = ?1, lane = ?1, ready = 0 where id = ?2", (lane, row))
        MESSAGES.mark_head(tx, before)
        MESSAGES.mark_head(tx, lane)

    for n in range(lanes):
        place = f"place {n}"
        lane = await office.store._do(lambda tx, place=place: session(tx, agent, conversation=place, mode="shared"))
        for _ in range(each):
            message = await office.sent(to=agent, **more)
            await office.store._do(lambda tx, message=message, lane=lane: move(tx, message, lane))


async def may(office: Any, agent: str, concurrency: int, provider: str = "rehearsal") -> None:
    sql = "update agents set concurrency = ?, provider = ? where id = ?"
    await office.store._do(lambda tx: tx.run(sql, (concurrency, provider, agent)))


async def end(office: Any, claimed: Any) -> None:
    desk = office.desk(claimed)
    for work in claimed.messages:
        desk.ack(work.message_id)
    await desk.take()


async def test_several_lanes_of_one_agent_run_at_once_if_it_may(office: Any) -> None:
    await in_lanes(office, "ada", 5)
    assert len(await office.claim()) == 1
    assert await office.claim() == []
    await may(office, "ada", 3)
    more = await office.claim()
    assert len(more) == 2
    assert len({claimed.session for claimed in more}) == 2
    assert await office.claim() == []
    await end(office, more[0])
    assert len(await office.claim()) == 1


async def test_a_flood_of_urgent_messages_starves_nobody(office: Any) -> None:
    """One desk; ada has more than everybody, all of it urgent, in lanes of her own."""
    await may(office, "ada", 50)
    await in_lanes(office, "ada", 20, priority=100)
    for _ in range(4):
        await office.sent(to="bob")
        await office.sent(to="cyd")
    begun = []
    for _ in range(12):
        (claimed,) = await office.claim(batch=1, most=1)
        begun.append(claimed.agent)
        await end(office, claimed)
    assert Counter(begun) == {"ada": 4, "bob": 4, "cyd": 4}
    # and between two turns of one agent each other one has its turn
    assert all(set(begun[n : n + 3]) == {"ada", "bob", "cyd"} for n in range(0, 12, 3))


async def test_desks_are_shared_evenly_also_when_one_holds_them_long(office: Any) -> None:
    await may(office, "ada", 50)
    await may(office, "bob", 50)
    await in_lanes(office, "ada", 10)
    held = await office.claim(most=6)
    assert [claimed.agent for claimed in held] == ["ada"] * 6
    await in_lanes(office, "bob", 10)
    # six desks, and one after the other comes free: they go to bob until both have three
    for claimed in held[:3]:
        await end(office, claimed)
        (fresh,) = await office.claim(most=1)
        assert fresh.agent == "bob"
    running = Counter(agent for (agent,) in office.rows("select agent from runs where ended_at is null"))
    assert running == {"ada": 3, "bob": 3}


async def test_inside_an_agent_the_more_urgent_lane_goes_first(office: Any) -> None:
    await in_lanes(office, "ada", 1)
    await in_lanes(office, "bob", 1)
    urgent = await office.sent(to="ada", priority=5)
    (claimed,) = await office.claim(most=1)
    assert [work.message_id for work in claimed.messages] == [urgent]


async def test_a_provider_has_so_many_desks_and_no_more(office: Any) -> None:
    await may(office, "ada", 10, "claude")
    await may(office, "bob", 10, "claude")
    await in_lanes(office, "ada", 5)
    await in_lanes(office, "bob", 5)
    await office.sent(to="cyd")
    caps = Caps(own={"claude": 3})
    begun = await office.store.claim(batch=1, most=10, caps=caps)
    agents = Counter(claimed.agent for claimed in begun)
    # fair within the cap too, and who has another provider does not notice
    assert agents.pop("cyd") == 1
    assert sorted(agents.values()) == [1, 2]
    assert await office.store.claim(batch=1, most=10, caps=caps) == []
    fewer = min(agents, key=lambda agent: agents[agent])
    more = max(agents, key=lambda agent: agents[agent])
    await end(office, next(claimed for claimed in begun if claimed.agent == more))
    (fresh,) = await office.store.claim(batch=1, most=10, caps=caps)
    assert fresh.agent in (fewer, more)
    assert len(await office.store.claim(batch=1, most=10, caps=Caps(own={"claude": 3}, asking={"claude": 2}))) == 2


async def test_a_capped_provider_keeps_its_own_order(office: Any) -> None:
    """However often others have their turn meanwhile, the two who share one desk take it in turns."""
    await may(office, "ada", 1, "claude")
    await may(office, "bob", 1, "claude")
    for _ in range(4):
        await office.sent(to="ada", priority=100)
        await office.sent(to="bob")
    caps, begun = Caps(own={"claude": 1}), []
    for _ in range(8):
        (claimed,) = await office.store.claim(batch=1, most=10, caps=caps)
        begun.append(claimed.agent)
        for _ in range(5):
            await office.sent(to="cyd")
            (other,) = await office.store.claim(batch=1, most=10, caps=caps)
            await end(office, other)
        await end(office, claimed)
    assert begun == ["ada", "bob"] * 4


async def test_nothing_begins_while_the_office_is_paused(office: Any, reader: Any) -> None:
    first = await office.sent("before")
    claimed, desk = await office.begin()
    assert await office.store.pause_office() is True
    assert await office.store.pause_office() is False
    assert reader.office_paused() is True
    await office.sent("meanwhile")
    assert await office.claim() == []
    assert await office.store.claim_more([(claimed.session, claimed.fence)], batch=10) == {}
    # what runs goes on, and another host finds the same
    await desk.ack(first).take()
    await office.reopen()
    assert await office.claim() == []
    assert await office.store.resume_office() is True
    assert await office.store.resume_office() is False
    assert reader.office_paused() is False
    (claimed,) = await office.claim()
    assert [work.text for work in claimed.messages] == ["meanwhile"]
    kinds = [kind for kind in office.kinds() if kind.startswith("office_")]
    assert kinds == ["office_paused", "office_resumed"]


def waited(office: Any) -> list[int]:
    found = office.rows("select json_extract(data, '$.queue_ms') from events where kind = 'message_received'")
    return [wait for (wait,) in found]


async def test_a_wait_begins_when_the_message_could_have_been_taken(office: Any, clock: Any) -> None:
    message = await office.sent()
    clock.advance(100)
    _, desk = await office.begin()
    clock.advance(1_000)
    await desk.fail(message).take()
    clock.advance(5_000)  # the back-off
    assert await office.store.next_timer() == 0
    await office.claim(most=0)  # whoever looks finds it due
    clock.advance(300)
    _, desk = await office.begin()
    assert waited(office) == [100, 300]


async def test_a_message_that_was_held_waits_from_its_release_on(office: Any, clock: Any) -> None:
    first = await office.sent("[@ada: draft] -> [@bob: review]")
    _, desk = await office.begin()
    clock.advance(4_000)
    await desk.ack(first).take()
    clock.advance(70)
    await office.begin()
    assert waited(office) == [0, 70]
