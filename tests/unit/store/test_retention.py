"""What is old leaves the store, a little at a time; nothing that somebody still needs does."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.errors import Duplicate, LedgerPruned
from manydesks.domain.loopguard import Limits
from manydesks.store.deliver import Delivery
from manydesks.store.retention import ARRIVAL_MS, STEP, Pruned, old_enough

DAY = 24 * 3_600_000
MONTH = 30 * DAY


async def delivered(office: Any) -> None:
    while parcels := await office.store.claim_parcels(["console"], most=100):
        for parcel in parcels:
            await office.store.settle(parcel, Delivery(receipt="r"))


async def answered(office: Any, text: str = "hello", **more: Any) -> str:
    """A message whose trace has ended, delivery included."""
    message = await office.sent(text, **more)
    (claimed,) = await office.claim()
    await office.desk(claimed).say("hi").ack(message).take()
    await delivered(office)
    return str(message)


async def prune(office: Any, **more: Any) -> Pruned:
    """Every step that there is."""
    done = Pruned()
    while True:
        step = await office.store.prune(**{"keep_ms": MONTH, "require_archive": False} | more)
        done = done.then(step)
        if not step.more:
            return done


async def archive(office: Any) -> int:
    return int(await office.store.mark_archived(office.head()))


def counts(office: Any) -> dict[str, int]:
    tables = ("messages", "responses", "runs", "run_messages", "arrivals", "agent_messages", "bodies")
    return {table: office.one(f"select count(*) from {table}") for table in tables}


async def test_what_is_old_has_ended_and_is_in_the_lake_goes(office: Any, clock: Any, reader: Any) -> None:
    message = await answered(office)
    last = await archive(office)
    clock.advance(MONTH + 1)
    young = await answered(office, "later")
    done = await prune(office, require_archive=True)
    assert (done.events, done.messages, done.responses, done.runs) == (last, 1, 1, 1)
    assert (done.first, done.waits_for_archive, done.more) == (last + 1, False, False)
    assert reader.message(message) is None
    assert reader.message(young)["status"] == "completed"
    # what the agents remember is kept, and so are its words
    assert counts(office) == {
        "messages": 1, "responses": 1, "runs": 1, "run_messages": 1, "arrivals": 2, "agent_messages": 4, "bodies": 4,
    }  # fmt: skip
    assert office.one("select count(*) from events where seq <= ?", last) == 0
    assert reader.queue_status()["completed"] == 1


async def test_nothing_young_goes(office: Any, clock: Any) -> None:
    await answered(office)
    await archive(office)
    clock.advance(MONTH - 1)
    before = office.everything()
    done = await prune(office, require_archive=True)
    assert not any(done.counts.values())
    assert (done.first, done.waits_for_archive) == (1, False)
    assert office.everything() == before


async def test_nothing_goes_that_the_lake_does_not_have(office: Any, clock: Any) -> None:
    first = await answered(office)
    mark = await archive(office)
    second = await answered(office)
    clock.advance(MONTH + 1)
    done = await prune(office, require_archive=True)
    assert (done.events, done.archived, done.waits_for_archive) == (mark, mark, True)
    assert office.rows("select message_id from messages") == [(second,)]
    assert office.one("select min(seq) from events") == mark + 1
    assert first != second


async def test_a_trace_that_the_lake_has_in_part_stays_whole(office: Any, clock: Any) -> None:
    message = await office.sent()
    (claimed,) = await office.claim()
    await archive(office)
    await office.desk(claimed).say("hi").ack(message).take()
    await delivered(office)
    clock.advance(MONTH + 1)
    before = counts(office)
    assert (await prune(office, require_archive=True)).events > 0
    assert counts(office) == before


async def test_without_an_archive_age_alone_decides_and_the_newest_event_stays(office: Any, clock: Any) -> None:
    await answered(office)
    head = office.head()
    clock.advance(MONTH + 1)
    done = await prune(office)
    assert done.events == head - 1
    # `max(seq)` is where the ledger ends, for whoever looks at nothing else
    assert office.rows("select seq, kind from events order by seq")[0][0] == head
    assert office.kinds()[-1] == "retention_pruned"
    assert office.one("select max(seq) from events") == office.head() == head + 1
    told = json.loads(office.one("select data from events where kind = 'retention_pruned'"))
    assert told == {**done.counts, "upto": head - 1}


async def test_a_pruning_of_prunings_is_not_worth_a_word(office: Any, clock: Any) -> None:
    await answered(office)
    for _ in range(3):
        clock.advance(MONTH + 1)
        await prune(office)
    before = office.head()
    clock.advance(MONTH + 1)
    await prune(office)
    assert office.head() == before


async def test_dead_letters_keep_their_whole_trace_until_they_are_dropped(office: Any, clock: Any) -> None:
    accepted = await office.send("[@ada: one] [@bob: two]")
    ada, bob = await office.claim()
    await office.desk(ada).say("fine").ack(ada.messages[0].message_id).take()
    dead = bob.messages[0].message_id
    await office.desk(bob).fail(dead, "permanent", "bad key").take()
    await delivered(office)
    clock.advance(MONTH + 1)
    assert (await prune(office)).messages == 0
    assert len(office.rows("select 1 from messages where trace = ?", accepted.trace)) == 2
    await office.store.drop(dead)
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    assert (await prune(office)).messages == 2
    assert office.rows("select 1 from messages") == []


async def test_what_still_moves_is_left_alone(office: Any, clock: Any) -> None:
    office.rules = replace(office.rules, limits=Limits(hops=0))
    first = await office.sent("one", to="ada")
    (claimed,) = await office.claim()
    await office.desk(claimed).say("[@bob: over to you]").ack(first).take()  # held
    await office.sent("two", to="ada", platform_id="elsewhere")  # pending
    running = await office.sent("three", to="cyd")
    runs = await office.claim()
    before = counts(office)
    clock.advance(10 * MONTH)
    await office.store.note("processor_start")
    assert (await prune(office, arrival_ms=10**15)).events > 0
    assert counts(office) == before
    assert office.status(running) == "processing"
    desks = {claimed.agent: office.desk(claimed) for claimed in runs}
    await desks["cyd"].say("still here").ack(running).take()
    assert office.status(running) == "completed"


async def test_a_run_of_several_traces_goes_with_the_last_of_them(office: Any, clock: Any) -> None:
    one, two = await office.sent("one"), await office.sent("two")
    (claimed,) = await office.claim()
    desk = office.desk(claimed)
    await desk.say("1", to=one).ack(one).take()
    await desk.fail(two, "permanent", "no").take()
    await delivered(office)
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    done = await prune(office)
    assert (done.messages, done.runs) == (1, 0)
    assert office.rows("select message from run_messages") == [(two,)]
    await office.store.drop(two)
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    done = await prune(office)
    assert (done.messages, done.runs) == (1, 1)
    assert office.rows("select 1 from runs") == []


async def test_a_pruned_message_is_still_recognised_for_90_days(office: Any, clock: Any, reader: Any) -> None:
    message = await answered(office, "@ada hello", key="api_once")
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    assert (await prune(office)).messages == 1
    assert reader.trace(message) is reader.letter(message) is None
    with pytest.raises(Duplicate):
        await office.sent(key="api_once")
    clock.advance(ARRIVAL_MS - MONTH - 1)
    assert (await prune(office)).arrivals == 0
    with pytest.raises(Duplicate):
        await office.sent(key="api_once")
    clock.advance(1)
    done = await prune(office)
    # "@ada hello" was said to nobody: agents remember "hello"
    assert (done.arrivals, done.bodies) == (1, 1)
    assert [text for (text,) in office.rows("select text from bodies order by id")] == ["hello", "hi"]
    assert await office.sent(key="api_once") == "api_once"


async def test_an_arrival_that_led_to_no_message_keeps_its_trace(office: Any, clock: Any, reader: Any) -> None:
    accepted = await office.send("@bob")
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    await prune(office)
    assert reader.trace(accepted.trace) == {"traceId": accepted.trace, "messages": []}


async def test_an_arrivals_text_is_as_safe_as_an_events(office: Any, clock: Any) -> None:
    """Nothing but the arrival names the text of `@bob`: it goes only after a later text that the lake surely has."""
    await office.send("@bob")
    await archive(office)
    clock.advance(ARRIVAL_MS + 1)
    assert (await prune(office, require_archive=True)).arrivals == 0
    await answered(office, to="bob")
    await archive(office)
    clock.advance(MONTH + 1)
    done = await prune(office, require_archive=True)
    assert (done.arrivals, office.one("select count(*) from arrivals")) == (1, 1)


async def test_words_that_nobody_names_any_more_go(office: Any, clock: Any) -> None:
    """The office's own notices, and texts that were edited, are in nobody's memory."""
    message = await office.sent("first words")
    (claimed,) = await office.claim()
    await office.desk(claimed).fail(message, "permanent", "bad key").take()
    await office.store.retry(message, "second words")
    (claimed,) = await office.claim()
    await office.desk(claimed).say("fine").ack(message).take()
    await delivered(office)
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    done = await prune(office)
    assert (done.messages, done.responses, done.bodies) == (1, 2, 2)
    assert [text for (text,) in office.rows("select text from bodies order by id")] == ["first words", "fine"]


@pytest.mark.parametrize("most", [7, 20, STEP])
async def test_a_step_is_small_however_much_there_is(office: Any, clock: Any, most: int) -> None:
    for _ in range(12):
        await answered(office, "@ada hello")
    # one trace that is larger than a step, and one message with more attempts than fit into one
    big = await office.sent("!hello")
    for _ in range(6):
        (claimed,) = await office.claim()
        await office.desk(claimed).fail(big, "permanent").take()
        await office.store.retry(big)
    (claimed,) = await office.claim()
    desk = office.desk(claimed)
    for n in range(20):
        desk.say(f"part {n}", to=big)
    await desk.ack(big).take()
    await delivered(office)
    clock.advance(ARRIVAL_MS + 1)
    await office.store.note("processor_start")
    db = office.store._writer._db
    # one write each: counters and marks, the arrival's stamp, and the event that tells of it
    overhead = 16
    steps = 0
    while True:
        before = db.total_changes()
        step = await office.store.prune(keep_ms=MONTH, require_archive=False, most=most)
        assert db.total_changes() - before <= most + overhead
        assert sum(step.counts.values()) <= most
        steps += 1
        if not step.more:
            break
    assert office.rows("select 1 from messages") == office.rows("select 1 from runs") == []
    assert steps >= 150 // most


async def test_steps_and_work_share_their_commits(office: Any, clock: Any) -> None:
    """Pruning under load: between any two steps others have their turn, and none of them fails."""
    for _ in range(20):
        await answered(office)
    clock.advance(MONTH + 1)

    async def all_steps() -> int:
        n = 1
        while (await office.store.prune(keep_ms=MONTH, require_archive=False, most=10)).more:
            n += 1
        return n

    async def work() -> list[str]:
        return [await office.sent(f"new {n}") for n in range(30)]

    steps, sent = await asyncio.gather(all_steps(), work())
    assert steps > 10
    assert office.statuses() == ["pending"] * len(sent)


async def test_an_end_in_the_same_commit_is_an_event_that_nobody_has_yet(office: Any, clock: Any) -> None:
    """Group commit: the settling is gathered, not in the ledger, when the step looks."""
    message = await office.sent()
    (claimed,) = await office.claim()
    await office.desk(claimed).say("hi").ack(message).take()
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    await archive(office)
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    settled, _ = await asyncio.gather(
        office.store.settle(parcel, Delivery(receipt="r")), office.store.prune(keep_ms=MONTH, require_archive=True)
    )
    assert settled
    assert office.status(message) == "completed"
    assert office.one("select max(seq) from events where trace is not null") > office.one(
        "select seq from marks where name = 'archived'"
    )


async def test_a_clock_set_forward_makes_nothing_old(office: Any, clock: Any) -> None:
    await answered(office)
    before = office.everything()
    clock.jump(400 * DAY)
    done = await prune(office)
    assert not any(done.counts.values())
    assert office.everything() == before
    # nor does one set back, however old that makes what is new
    clock.jump(-800 * DAY)
    await prune(office)
    assert office.everything() == before


@pytest.mark.parametrize(
    ("moments", "count"),
    [
        ((), 0),
        ((1, 2, 3), 3),
        ((1, 50, 3), 1),
        ((50, 1), 0),
        # 1000 is still to come: it says nothing, and goes with those after it
        ((1, 1000, 3), 3),
        ((1, 1000, 50), 1),
        ((1, 1000), 1),
    ],
)
def test_old_enough(moments: tuple[int, ...], count: int) -> None:
    assert old_enough([(seq, at) for seq, at in enumerate(moments, 1)], before=10, now=100) == count


async def test_a_reader_below_the_ledgers_first_event_is_told(office: Any, clock: Any, reader: Any) -> None:
    assert reader.first() == 1
    await answered(office)
    clock.advance(MONTH + 1)
    await office.store.note("processor_start")
    first = (await prune(office)).first
    assert first > 1
    assert reader.first() == first
    for after in (0, first - 2):
        with pytest.raises(LedgerPruned, match=f"begins at event {first}: what was before it has been pruned"):
            reader.events(after, 100)
    assert [event["seq"] for event in reader.events(first - 1, 100)] == list(range(first, office.head() + 1))


async def test_no_statement_of_retention_scans_a_table_that_grows(office: Any, clock: Any) -> None:
    for _ in range(3):
        await answered(office, "@ada hello")
    clock.advance(ARRIVAL_MS + 1)
    db = office.store._writer._db
    seen: dict[str, str] = {}
    looking = False

    def trace(cursor: Any, sql: str, bindings: Any) -> bool:
        nonlocal looking
        if not looking and re.match(r"\s*(select|update|delete|insert)", sql):
            looking = True
            # the foreign keys' own searches are part of the plan
            steps = db.execute(f"explain query plan {sql}", bindings).fetchall()
            seen[sql] = " | ".join(detail for *_, detail in steps)
            looking = False
        return True

    await office.store._do(lambda tx: None)
    db.exec_trace = trace
    done = await prune(office)
    db.exec_trace = None
    assert done.bodies > 0
    assert len(seen) > 15
    scans = {sql: plan for sql, plan in seen.items() if re.search(r"SCAN (?!json_each|ledger_head)", plan)}
    assert scans == {}
