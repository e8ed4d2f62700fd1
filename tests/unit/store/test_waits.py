"""Chains and joins: rows that wait for others, released once, told everything, never forgotten."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.errors import WrongState
from manydesks.domain.loopguard import Limits
from manydesks.store.waits import WAIT_MS

CHAIN = "About rain. [@ada: draft] -> [@bob: review]"
JOIN = "[@ada: one] [@bob: two] => [@cyd: sum up]"


async def sent(office: Any, text: str, **more: Any) -> list[str]:
    return [message["messageId"] for message in (await office.send(text, **more)).messages]


async def desk_of(office: Any, agent: str) -> tuple[Any, Any]:
    """The agent's next message and its desk; what others have to do stays where it is."""
    mine = None
    for claimed in await office.claim(batch=1):
        if claimed.agent == agent:
            mine = claimed
        else:
            await office.store.run_released(claimed.session, claimed.fence, "not asked")
    assert mine is not None, f"{agent} has nothing to do"
    return mine.messages[0], office.desk(mine)


async def answer(office: Any, agent: str, text: str = "done") -> str:
    """The agent's next message is answered; its text."""
    work, desk = await desk_of(office, agent)
    await (desk.say(text, to=work.message_id) if text else desk).ack(work.message_id).take()
    return str(work.text)


async def fail(office: Any, agent: str, reason: str = "bad key") -> None:
    work, desk = await desk_of(office, agent)
    await desk.fail(work.message_id, "permanent", reason).take()


def told(office: Any, message: str) -> list[str]:
    """What the office itself said about a message."""
    sql = "select text from responses_text where message_id = ? and operation = 'notice' order by id"
    return [text for (text,) in office.rows(sql, message)]


def joins(office: Any) -> list[str]:
    return [status for (status,) in office.rows("select status from joins order by rowid")]


async def test_a_step_waits_outside_its_lane(office: Any) -> None:
    first, second = await sent(office, CHAIN)
    assert [office.status(id) for id in (first, second)] == ["pending", "held"]
    id, deadline = office.row("select id, deadline from joins")
    assert office.row(
        "select hold_reason, hold_ref, hold_until, position, ready, hop, chain, parent from messages "
        "where message_id = ?", second,
    ) == ("chain", id, deadline, None, 0, 0, "ada", None)  # fmt: skip
    assert office.rows("select join_id, place, message, status from join_parts") == [(id, 0, first, "open")]
    (held,) = office.rows("select data from events where kind = 'message_held'")
    assert json.loads(held[0]) == {"reason": "chain", "ref": id, "until": deadline}
    routed = office.rows("select json_extract(data, '$.by') from events where kind = 'agent_routed' order by seq")
    assert routed == [("tag",), ("chain",)]
    # nothing was said to its agent yet
    assert office.rows("select agent_id from agent_messages") == [("ada",)]


async def test_it_goes_on_with_the_answer(office: Any) -> None:
    _, second = await sent(office, CHAIN)
    await answer(office, "ada", "a draft\nof two lines")
    assert office.status(second) == "pending"
    assert joins(office) == ["complete"]
    text = "About rain.\n\nreview\n\n@ada answered:\n\n> a draft\n> of two lines"
    assert await answer(office, "bob", "fine") == text
    assert office.row("select hold_reason, hold_ref, hold_until from messages where message_id = ?", second) == (
        None, None, None,
    )  # fmt: skip
    said = office.rows(
        "select text from agent_messages a join bodies b on b.id = a.body where agent_id = 'bob' order by a.id"
    )
    assert said == [(text,), ("fine",)]
    (released,) = office.rows(
        "select e.data, b.text from events e join bodies b on b.id = e.body where kind = 'message_released'"
    )
    assert json.loads(released[0])["outcome"] == "complete"
    assert released[1] == text


async def test_a_join_waits_for_all_and_is_told_every_answer_and_every_failure(office: Any) -> None:
    *_, third = await sent(office, JOIN)
    await answer(office, "ada", "first")
    assert office.status(third) == "held"
    await fail(office, "bob", "the printer\nis on fire")
    assert await answer(office, "cyd") == (
        "sum up\n\n@ada answered:\n\n> first\n\n@bob did not answer: the printer is on fire"
    )
    assert joins(office) == ["complete"]


async def test_a_step_for_several_waits_for_all_of_them(office: Any) -> None:
    *_, third = await sent(office, "[@ada,bob: look] -> [@cyd: decide]")
    await answer(office, "bob", "no")
    assert office.status(third) == "held"
    await answer(office, "ada", "yes")
    assert await answer(office, "cyd") == "decide\n\n@ada answered:\n\n> yes\n\n@bob answered:\n\n> no"


async def test_a_dead_part_breaks_the_chain_and_a_retry_of_it_mends_it(office: Any) -> None:
    first, second, third = await sent(office, "[@ada: draft] -> [@bob: review] -> [@cyd: publish]")
    await fail(office, "ada", "bad key")
    assert [office.status(id) for id in (first, second, third)] == ["dead", "held", "held"]
    assert joins(office) == ["broken", "broken"]
    why = f"@ada could not answer before it: bad key. It goes on if {first} is tried again and answered."
    assert office.one("select last_error from messages where message_id = ?", second) == why
    assert told(office, second) == [f"bob was not asked yet: {why}"]
    # one word is enough for the whole chain
    assert told(office, third) == []
    await office.store.retry(first)
    assert joins(office) == ["open", "open"]
    assert office.one("select last_error from messages where message_id = ?", second) is None
    await answer(office, "ada", "better")
    assert await answer(office, "bob", "fine") == "review\n\n@ada answered:\n\n> better"
    assert await answer(office, "cyd", "out") == "publish\n\n@bob answered:\n\n> fine"
    assert office.statuses() == ["completed"] * 3
    assert joins(office) == ["complete", "complete"]


@pytest.mark.parametrize("act", ["drop", "cancel"])
async def test_a_part_that_is_given_up_ends_all_that_waits_for_it(office: Any, act: str) -> None:
    first, second, third = await sent(office, "[@ada: draft] -> [@bob: review] -> [@cyd: publish]")
    if act == "drop":
        await fail(office, "ada")
        await office.store.drop(first)
    else:
        await office.store.cancel(first)
    assert office.statuses() == ["cancelled"] * 3
    assert joins(office) == ["broken", "broken"]
    assert office.rows("select id from joins where ended_at is null") == []
    assert told(office, second)[-1].startswith("bob will not be asked: @ada did not answer before it: it was")
    assert told(office, third) == []
    assert office.kinds().count("message_cancelled") == 3


async def test_a_part_that_is_refused_with_an_answer_ends_the_chain(office: Any) -> None:
    _, second = await sent(office, CHAIN)
    work, desk = await desk_of(office, "ada")
    await desk.fail(work.message_id, "refused", "that is not allowed").take()
    assert office.statuses() == ["completed", "cancelled"]
    assert told(office, second) == ["bob will not be asked: @ada did not answer before it: that is not allowed."]


async def test_a_join_takes_a_broken_chain_for_a_failure(office: Any) -> None:
    await sent(office, "[@ada: draft] -> [@bob: review] [@cyd: count] => [@cyd: sum up]")
    await fail(office, "ada")
    assert office.statuses() == ["dead", "held", "pending", "held"]
    await answer(office, "cyd", "seven")
    text = await answer(office, "cyd")
    assert text.startswith("sum up\n\n@bob did not answer: @ada could not answer before it: bad key.")
    assert text.endswith("@cyd answered:\n\n> seven")
    # the chain can still be mended; the join has gone on without it, and is not told a second time
    await office.store.retry(office.one("select message_id from messages where state = 5"))
    await answer(office, "ada", "late")
    await answer(office, "bob", "fine")
    assert office.statuses() == ["completed"] * 4
    assert office.kinds().count("message_released") == 2


async def test_a_part_that_is_tried_again_before_the_join_goes_on_counts_with_its_last_answer(office: Any) -> None:
    first, _, third = await sent(office, JOIN)
    await fail(office, "ada")
    await office.store.retry(first)
    await answer(office, "bob", "second")
    assert office.status(third) == "held"
    await answer(office, "ada", "first after all")
    assert (await answer(office, "cyd")).startswith("sum up\n\n@ada answered:\n\n> first after all")


async def test_a_part_that_is_tried_again_later_releases_nothing_twice(office: Any) -> None:
    first, _, third = await sent(office, JOIN)
    await fail(office, "ada")
    await answer(office, "bob")
    await answer(office, "cyd")
    await office.store.retry(first)
    await answer(office, "ada")
    assert office.statuses() == ["completed"] * 3
    assert office.rows("select count(*) from events where kind = 'message_released'") == [(1,)]
    assert office.one("select count(*) from runs r join run_messages m on m.run = r.id where m.message = ?", third) == 1


async def test_an_answer_of_several_attempts_is_the_last_ones(office: Any) -> None:
    await sent(office, CHAIN)
    work, desk = await desk_of(office, "ada")
    await desk.say("half of it", to=work.message_id).fail(work.message_id).take()
    office.clock.advance(10_000)
    await answer(office, "ada", "all of it")
    assert (await answer(office, "bob")).endswith("@ada answered:\n\n> all of it")


async def test_an_answer_given_together_with_another_is_told_too(office: Any) -> None:
    other = await office.sent("hello", to="ada")
    first, _ = await sent(office, CHAIN)
    (claimed,) = await office.claim()
    assert [work.message_id for work in claimed.messages] == [other, first]
    await office.desk(claimed).say("both at once", to=other).ack(other).ack(first).take()
    assert (await answer(office, "bob")).endswith("@ada answered:\n\n> both at once")


async def test_silence_is_an_answer(office: Any) -> None:
    await sent(office, CHAIN)
    await answer(office, "ada", "")
    assert (await answer(office, "bob")).endswith("@ada answered without a word.")


async def test_files_that_came_with_an_answer_go_along(office: Any) -> None:
    from manydesks.domain.attachment import Attachment

    await sent(office, CHAIN)
    work, desk = await desk_of(office, "ada")
    file = Attachment(name="draft.md", bytes=3, sha256="0" * 64, path="files/x")
    page = desk.say("here", to=work.message_id, id="out_1").ack(work.message_id).page()
    await office.store.take(desk.session, page, office.rules, {"out_1": (file,)})
    work, _ = await desk_of(office, "bob")
    assert work.files == (file,)


# by hand


async def test_a_person_may_let_it_go_on_with_what_there_is(office: Any) -> None:
    first, _, third = await sent(office, JOIN)
    await answer(office, "bob", "second")
    await office.store.release_held(third)
    assert await answer(office, "cyd") == "sum up\n\n@ada has not answered yet.\n\n@bob answered:\n\n> second"
    await answer(office, "ada")
    assert office.statuses() == ["completed"] * 3
    with pytest.raises(WrongState):
        await office.store.release_held(third)
    assert office.status(first) == "completed"


async def test_also_a_broken_chain(office: Any) -> None:
    _, second = await sent(office, CHAIN)
    await fail(office, "ada", "bad key")
    await office.store.release_held(second)
    assert (await answer(office, "bob")).endswith("review\n\n@ada did not answer: bad key")
    assert joins(office) == ["complete"]


async def test_and_what_waits_for_it_waits_again(office: Any) -> None:
    *_, second, third = await sent(office, "[@ada: draft] -> [@bob: review] -> [@cyd: publish]")
    await fail(office, "ada")
    assert joins(office) == ["broken", "broken"]
    await office.store.release_held(second)
    assert joins(office) == ["complete", "open"]
    await answer(office, "bob", "without a draft")
    assert office.status(third) == "pending"
    assert (await answer(office, "cyd")).endswith("> without a draft")


@pytest.mark.parametrize("act", ["drop", "cancel"])
async def test_a_step_that_is_given_up_ends_what_waits_for_it(office: Any, act: str) -> None:
    first, second, third = await sent(office, "[@ada: draft] -> [@bob: review] -> [@cyd: publish]")
    await getattr(office.store, act)(second)
    assert [office.status(id) for id in (first, second, third)] == ["pending", "cancelled", "cancelled"]
    await answer(office, "ada")
    assert office.statuses() == ["completed", "cancelled", "cancelled"]


async def test_a_whole_trace_can_be_cancelled(office: Any) -> None:
    accepted = await office.send("[@ada: one] [@bob: two] => [@cyd: three] -> [@ada: four]")
    while (await office.store.cancel(accepted.trace)).more:
        pass
    assert office.statuses() == ["cancelled"] * 4
    assert office.rows("select id from joins where ended_at is null") == []


# time


async def test_a_step_that_waits_too_long_is_dead_and_can_be_tried_again_without_the_answer(office: Any) -> None:
    first, second = await sent(office, CHAIN)
    assert await office.store.next_timer() == WAIT_MS
    office.clock.advance(WAIT_MS)
    (claimed,) = await office.claim()
    assert [work.message_id for work in claimed.messages] == [first]
    assert office.statuses() == ["processing", "dead"]
    assert joins(office) == ["timed_out"]
    why = f"it waited 24 hours in vain. @ada has not answered {first} yet."
    assert office.row("select last_error, hold_reason from messages where message_id = ?", second) == (why, None)
    assert told(office, second) == [f"bob was not asked: {why} (dead letter {second})"]
    await office.desk(claimed).say("too late", to=first).ack(first).take()
    assert office.status(second) == "dead"
    await office.store.retry(second)
    assert (await answer(office, "bob")).endswith("review\n\n@ada has not answered yet.")


async def test_it_can_be_edited_then(office: Any) -> None:
    _, second = await sent(office, CHAIN)
    await office.begin()
    office.clock.advance(WAIT_MS)
    await office.claim()
    await office.store.retry(second, "decide alone")
    assert await answer(office, "bob") == "decide alone\n\n@ada has not answered yet."


async def test_a_join_goes_on_with_what_there_is(office: Any) -> None:
    await sent(office, JOIN)
    await answer(office, "bob", "second")
    await office.begin()
    office.clock.advance(WAIT_MS - 1)
    assert await office.claim() == []
    office.clock.advance(1)
    assert await answer(office, "cyd") == "sum up\n\n@ada has not answered yet.\n\n@bob answered:\n\n> second"
    assert joins(office) == ["timed_out"]
    released = office.one("select data from events where kind = 'message_released'")
    assert json.loads(released)["outcome"] == "timed_out"


async def test_nobody_who_sets_the_clock_ends_a_wait(office: Any) -> None:
    _, second = await sent(office, CHAIN)
    await office.begin()
    office.clock.jump(10 * WAIT_MS)
    assert await office.claim() == []
    assert office.status(second) == "held"
    office.clock.jump(-20 * WAIT_MS)
    office.clock.advance(WAIT_MS)
    await office.claim()
    assert office.status(second) == "dead"


async def test_a_deadline_survives_a_restart(office: Any) -> None:
    _, second = await sent(office, CHAIN)
    await office.reopen()
    office.clock.advance(WAIT_MS)
    await office.claim()
    assert office.status(second) == "dead"


async def test_a_long_chain_has_its_time_for_each_step(office: Any) -> None:
    await sent(office, "[@ada: draft] -> [@bob: review] -> [@cyd: publish]")
    office.clock.advance(WAIT_MS - 1)
    await answer(office, "ada")
    office.clock.advance(WAIT_MS - 1)
    await answer(office, "bob")
    await answer(office, "cyd")
    assert office.statuses() == ["completed"] * 3


async def test_a_retried_part_has_the_whole_time_again(office: Any) -> None:
    first, second = await sent(office, CHAIN)
    await fail(office, "ada")
    office.clock.advance(WAIT_MS - 1)
    await office.store.retry(first)
    assert office.one("select hold_until from messages where message_id = ?", second) == office.one(
        "select deadline from joins"
    )
    office.clock.advance(WAIT_MS - 1)
    await answer(office, "ada")
    assert office.status(second) == "pending"


async def test_a_broken_chain_does_not_wait_for_ever(office: Any) -> None:
    first, second = await sent(office, CHAIN)
    await fail(office, "ada")
    office.clock.advance(WAIT_MS)
    await office.claim()
    assert office.status(second) == "dead"
    # and when its part is tried again after all, it stays where it is
    await office.store.retry(first)
    await answer(office, "ada")
    assert office.status(second) == "dead"


async def test_the_time_is_the_settings(office: Any) -> None:
    await office.store.accept(replace(incoming(), text=CHAIN), default_agent="ada", message_bytes=1000, wait_ms=5_000)
    assert await office.store.next_timer() == 5_000


def incoming() -> Any:
    from manydesks.domain.envelope import Incoming

    return Incoming(source="api", key="api_x", text="", channel="console", platform_id="here")


# agents


async def test_an_agents_answer_may_be_a_chain(office: Any) -> None:
    (first,) = await sent(office, "go", to="ada")
    _, desk = await office.begin()
    await desk.say("A plan. [@bob: draft] -> [@cyd: review]", to=first).ack(first).take()
    rows = office.rows(
        "select agent, status, hop, chain, parent, from_agent, text from messages_text where parent is not null "
        "order by id"
    )
    assert rows == [
        ("bob", "pending", 1, "ada", first, "ada", "A plan.\n\ndraft"),
        ("cyd", "held", 2, "ada bob", first, "ada", "A plan.\n\nreview"),
    ]
    assert office.kinds().count("chain_handoff") == 2
    assert office.responses() == [("pending", "message", "A plan. → @bob: draft\n→ then @cyd: review")]
    await answer(office, "bob", "a draft")
    assert (await answer(office, "cyd", "fine")).endswith("@bob answered:\n\n> a draft")
    # every answer goes to the person at the beginning
    assert [text for _, _, text in office.responses()][1:] == ["a draft", "fine"]


async def test_a_run_that_fails_after_it_has_laid_out_a_chain_is_not_tried_again(office: Any) -> None:
    (first,) = await sent(office, "go", to="ada")
    _, desk = await office.begin()
    await desk.say("[@bob: draft] => [@cyd: review]", to=first).fail(first).take()
    assert office.status(first) == "dead"
    assert "interrupted_after_output" in office.one("select last_error from messages where message_id = ?", first)
    assert office.one("select count(*) from messages") == 3


async def test_the_loop_guard_stops_a_step_first_and_then_it_waits(office: Any) -> None:
    office.rules = replace(office.rules, limits=Limits(hops=1))
    (first,) = await sent(office, "go", to="ada")
    _, desk = await office.begin()
    await desk.say("[@bob: draft] -> [@cyd: review]", to=first).ack(first).take()
    second = office.one("select message_id from messages where agent = 'cyd'")
    assert office.one("select hold_reason from messages where message_id = ?", second) == "loop_guard"
    await office.store.release_held(second)
    assert office.row("select status, hold_reason, last_error from messages where message_id = ?", second) == (
        "held", "chain", None,
    )  # fmt: skip
    await answer(office, "bob", "a draft")
    assert (await answer(office, "cyd")).endswith("> a draft")


async def test_the_loop_guards_step_stays_his_when_its_part_has_answered(office: Any) -> None:
    office.rules = replace(office.rules, limits=Limits(hops=1))
    (first,) = await sent(office, "go", to="ada")
    _, desk = await office.begin()
    await desk.say("[@bob: draft] -> [@cyd: review]", to=first).ack(first).take()
    await answer(office, "bob", "a draft")
    second = office.one("select message_id from messages where agent = 'cyd'")
    assert office.row("select status, hold_reason from messages where message_id = ?", second) == ("held", "loop_guard")
    await office.store.release_held(second)
    assert (await answer(office, "cyd")).endswith("> a draft")


# as readers see it


async def test_a_reader_sees_what_a_message_waits_for(office: Any, reader: Any) -> None:
    first, second = await sent(office, CHAIN)
    found = reader.message(second)
    assert found["holdReason"] == "chain"
    part = {"messageId": first, "agent": "ada", "status": "open", "reason": None}
    wait = {"kind": "chain", "status": "open", "until": office.one("select deadline from joins"), "parts": [part]}
    assert found["wait"] == {"id": office.one("select id from joins"), **wait}
    assert reader.message(first)["wait"] is None
    await fail(office, "ada", "bad key")
    found = reader.message(second)["wait"]
    assert (found["status"], found["parts"]) == ("broken", [{**part, "status": "dead", "reason": "bad key"}])
    await office.store.drop(first)
    assert reader.message(second)["wait"]["until"] is None
