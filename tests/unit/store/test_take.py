"""T3: what a desk wrote becomes true, once, under the fence of the live claim, or is discarded with a word."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest


async def test_an_answer_becomes_a_response_and_its_message_is_completed(office: Any) -> None:
    message = await office.sent("hello", sender="Kim", sender_id="k", thread="t")
    claimed, desk = await office.begin()
    assert await desk.say("hi Kim").ack(message).take() == claimed.fence
    assert office.status(message) == "completed"
    assert office.row(
        "select message_id, run, part, channel, platform_id, thread_id, sender, sender_id, agent, operation, text, "
        "original_text, status from responses_text"
    ) == (
        message, claimed.run, 1, "console", "here", "t", "Kim", "k", "ada", "message", "hi Kim", "hello", "pending",
    )  # fmt: skip
    assert office.row("select outcome, ended_at, reason from runs") == ("completed", office.clock.now(), None)
    assert office.rows("select role, text from agent_messages a join bodies b on b.id = a.body order by a.id") == [
        ("user", "hello"), ("assistant", "hi Kim"),
    ]  # fmt: skip
    assert office.rows("select * from claims") == []


async def test_a_claim_lasts_until_its_last_message_is_answered(office: Any) -> None:
    one, two = await office.sent("one"), await office.sent("two")
    claimed, desk = await office.begin()
    assert await desk.say("1", to=one).ack(one).take() == 0
    assert office.statuses() == ["completed", "processing"]
    assert await desk.say("2", to=two).ack(two).take() == claimed.fence
    assert office.statuses() == ["completed", "completed"]
    assert office.rows("select message_id, text from responses_text order by id") == [(one, "1"), (two, "2")]
    assert office.kinds().count("chain_step_done") == 1


async def test_an_answer_to_nothing_in_particular_answers_the_first(office: Any) -> None:
    one, two = await office.sent("one"), await office.sent("two")
    _, desk = await office.begin()
    await desk.say("both").ack(one).ack(two).take()
    assert office.rows("select message_id from responses") == [(one,)]


async def test_several_parts_are_numbered(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("a").say("b").take()
    await desk.say("c").ack(message).take()
    assert office.rows("select part, text from responses_text order by id") == [(1, "a"), (2, "b"), (3, "c")]


async def test_a_page_is_taken_once(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    found = desk.step("usage", input=5).say("once").page()
    await office.store.take(claimed.session, found, office.rules)
    before = office.everything()
    assert await office.store.take(claimed.session, found, office.rules) == 0
    assert office.everything() == before
    await desk.ack(message).take()
    assert len(office.responses()) == 1
    assert office.one("select input_tokens from runs") == 5


async def test_a_page_that_overlaps_the_one_before_gives_only_what_is_new(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    desk.say("one")
    first = desk.page()
    desk.say("two").ack(message)
    second = desk.page()
    both = type(second)(
        epoch=second.epoch, last_seq=second.last_seq, messages=first.messages + second.messages, acks=second.acks
    )
    await office.store.take(claimed.session, first, office.rules)
    await office.store.take(claimed.session, both, office.rules)
    assert [text for _, _, text in office.responses()] == ["one", "two"]


async def test_the_cursor_never_moves_back(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    desk.say("one")
    old = desk.page()
    await office.store.take(claimed.session, old, office.rules)
    await desk.say("two").take()
    before = await office.store.cursors(claimed.session)
    await office.store.take(claimed.session, old, office.rules)
    assert await office.store.cursors(claimed.session) == before
    await desk.ack(message).take()


async def test_a_second_epoch_is_read_from_its_start(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    await desk.say("before").take()
    office.seqs.clear()  # the desk's file was made anew: its numbers begin again
    await desk.say("after", id="out_new").ack(message).take(epoch="cd" * 16)
    assert [text for _, _, text in office.responses()] == ["before", "after"]
    assert await office.store.cursors(claimed.session) == {"ab" * 16: 1, "cd" * 16: 3}


async def test_a_restored_file_that_repeats_a_row_says_it_once(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("hello [@bob: help]", id="out_same").take()
    office.seqs.clear()
    await desk.say("hello [@bob: help]", id="out_same").ack(message).take(epoch="cd" * 16)
    assert len(office.responses()) == 1
    assert office.one("select count(*) from messages where agent = 'bob'") == 1
    assert office.status(message) == "completed"


async def test_what_the_desk_cancelled_is_cancelled(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    claimed, desk = await office.begin()
    assert await desk.ack(one, "cancelled", reason="not needed").take() == 0
    assert await desk.ack(two, "cancelled").take() == claimed.fence
    assert office.statuses() == ["cancelled", "cancelled"]
    assert office.one("select outcome from runs") == "cancelled"


async def test_the_latest_end_is_told_also_to_whoever_comes_late(office: Any) -> None:
    message = await office.sent()
    first, desk = await office.begin()
    assert await desk.take() == 0
    await desk.ack(message).take()
    await office.sent()
    second, desk = await office.begin()
    assert await desk.say("hm").take() == first.fence < second.fence


async def test_output_of_a_stale_fence_is_discarded_with_a_word(office: Any) -> None:
    message = await office.sent()
    old, _ = await office.begin()
    await office.store.run_released(old.session, old.fence, "stop")
    new, _ = await office.begin()
    stale = office.desk(old)
    before = office.everything()
    assert await stale.say("late").ack(message).take() == old.fence
    after = office.everything()
    for table in ("messages", "responses", "claims", "runs", "counters", "agent_messages", "bodies"):
        assert after[table] == before[table], table
    rows = office.rows("select run, data from events where kind = 'output_discarded' order by seq")
    assert [run for run, _ in rows] == [old.run, old.run]
    assert [json.loads(data) for _, data in rows] == [
        {"fence": old.fence, "current": new.fence, "what": "message", "out_id": "out_1"},
        {"fence": old.fence, "current": new.fence, "what": "ack", "out_id": message},
    ]
    assert await office.store.cursors(old.session) == {"ab" * 16: 3}  # and it is not looked at again
    await office.desk(new).say("mine").ack(message).take()
    assert [text for _, _, text in office.responses()] == ["mine"]


async def test_output_after_the_end_of_the_claim_is_discarded(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.ack(message).say("one more thing").take()
    assert office.responses() == []
    assert "output_discarded" in office.kinds()


async def test_a_forged_run_id_is_discarded(office: Any) -> None:
    message = await office.sent()
    other = await office.sent(to="bob")
    ada, bob = await office.claim()
    forged = office.desk(ada, run=bob.run)
    await forged.say("as bob").ack(message).take()
    assert office.responses() == []
    assert office.statuses() == ["processing", "processing"]
    assert office.kinds().count("output_discarded") == 2
    assert other


async def test_the_fence_of_another_session_is_discarded(office: Any) -> None:
    await office.sent(to="ada")
    other = await office.sent(to="bob")
    ada, bob = await office.claim()
    await office.desk(ada, run=bob.run, fence=bob.fence).say("as bob", to=other).ack(other).take()
    assert office.responses() == []
    assert office.statuses() == ["processing", "processing"]


async def test_an_ack_of_a_message_of_another_run_is_discarded(office: Any) -> None:
    await office.sent(to="ada")
    other = await office.sent(to="bob")
    ada, _ = await office.claim()
    await office.desk(ada).ack(other).ack("no_such_message").fail(other).take()
    assert office.statuses() == ["processing", "processing"]
    assert office.kinds().count("output_discarded") == 3


async def test_an_answer_to_a_message_of_another_run_is_discarded(office: Any) -> None:
    mine = await office.sent(to="ada")
    other = await office.sent(to="bob", platform_id="private")
    ada, _ = await office.claim()
    await office.desk(ada).say("for your eyes", to=other).say("what?", to="no_such_message").ack(mine).take()
    assert office.responses() == []
    assert office.status(mine) == "completed"
    assert office.kinds().count("output_discarded") == 2


@pytest.mark.parametrize("content", [{}, {"text": None}, {"text": 5}, {"text": ["a"]}, {"operation": "edit"}])
async def test_unreadable_content_is_discarded_and_the_rest_goes_on(office: Any, content: dict[str, Any]) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say(None, content=content).say("fine").ack(message).take()
    assert [text for _, _, text in office.responses()] == ["fine"]
    (data,) = office.rows("select data from events where kind = 'output_discarded'")
    assert json.loads(data[0])["what"] == "unreadable message"


async def test_a_second_ack_of_one_message_is_discarded(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    _, desk = await office.begin()
    await desk.ack(one).fail(one).ack(two).take()
    assert office.statuses() == ["completed", "completed"]


async def test_rows_are_applied_in_the_order_in_which_they_were_written(office: Any) -> None:
    """Not messages first: an answer that was written after the failure belongs to no claim any more."""
    message = await office.sent()
    _, desk = await office.begin()
    await desk.fail(message).say("too late").take()
    assert office.responses() == []
    assert office.status(message) == "pending"


async def test_usage_adds_up_and_unknown_stays_null(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    desk.step("usage", input=10, output=3, cache_read=None, cost_usd=0.5, model="m-1")
    desk.step("usage", input=5, output=None, cost_usd=0.25)
    await desk.ack(message).take()
    assert office.row(
        "select input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, model from runs"
    ) == (15, 3, None, None, 0.75, "m-1")
    assert json.loads(office.one("select data from events where kind = 'run_usage'")) == {
        "input": 15, "output": 3, "cache_read": None, "cache_write": None, "cost_usd": 0.75, "model": "m-1",
    }  # fmt: skip


async def test_a_run_that_says_nothing_of_usage_has_unknown_usage(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.ack(message).take()
    usage = json.loads(office.one("select data from events where kind = 'run_usage'"))
    assert set(usage.values()) == {None}


@pytest.mark.parametrize(
    "value", ["many", -1, 1.5, True, [1], {"n": 1}, 2**63, 10**30, 2**62], ids=lambda value: str(value)[:12]
)
async def test_usage_that_is_no_number_of_tokens_is_unknown(office: Any, value: Any) -> None:
    """A desk may write anything: none of it may keep the office from taking the rest."""
    message = await office.sent()
    _, desk = await office.begin()
    desk.step("usage", input=value, output=1, model=value).step("usage", input=value, output=1)
    await desk.say("answer").ack(message).take()
    assert office.status(message) == "completed"
    assert office.row("select input_tokens, output_tokens from runs") == (None, 2)


@pytest.mark.parametrize("value", ["free", -0.1, [], True, float("nan"), float("inf"), 10**400])
async def test_a_cost_that_is_no_sum_is_unknown(office: Any, value: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.step("usage", cost_usd=value).ack(message).take()
    assert office.one("select cost_usd from runs") is None


async def test_tool_steps_go_to_the_ledger_without_their_arguments(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    desk.step("tool_call", tool="send_message", id="7", arguments={"text": "secret"})
    desk.step("tool_result", tool="send_message", id="7", ok=False, duration_ms=12)
    desk.step("text", text="thinking").step("error", text="hm")
    await desk.ack(message).take()
    called = json.loads(office.one("select data from events where kind = 'tool_called'"))
    done = json.loads(office.one("select data from events where kind = 'tool_done'"))
    assert (called["tool"], called["call"], len(called["digest"])) == ("send_message", "7", 16)
    assert done == {"tool": "send_message", "call": "7", "duration_ms": 12, "ok": False}
    assert not office.rows("select 1 from events where data like '%secret%'")


@pytest.mark.parametrize("value", ["long", [1], {"a": 1}, -5, True, float("nan")])
async def test_a_duration_that_is_none_is_unknown(office: Any, value: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.step("tool_result", tool="t", id="1", ok=True, duration_ms=value).ack(message).take()
    assert json.loads(office.one("select data from events where kind = 'tool_done'"))["duration_ms"] is None


async def test_steps_of_unknown_and_foreign_runs_are_passed_over(office: Any) -> None:
    await office.sent(to="ada")
    other = await office.sent(to="bob")
    ada, bob = await office.claim()
    desk = office.desk(ada)
    desk.step("tool_call", run="run_nothere", tool="t").step("usage", run=bob.run, input=5)
    desk.step("tool_call", run=bob.run, tool="t")
    await desk.take()
    await office.desk(bob).ack(other).take()
    assert office.one("select input_tokens from runs where id = ?", bob.run) is None
    assert "tool_called" not in office.kinds()


async def test_the_continuation_becomes_true_with_the_page(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    await desk.say("hi").take(state={"continuation": "token-1"})
    assert office.one("select continuation from sessions") == "token-1"
    await desk.ack(message).take(state={"continuation": "token-2"})
    assert office.one("select continuation from sessions where id = ?", claimed.session) == "token-2"


async def test_a_hand_off_is_a_message_in_the_same_trace(office: Any) -> None:
    message = await office.sent("hello", sender="Kim", sender_id="k", thread="t", priority=2)
    _, desk = await office.begin()
    await desk.say("I ask [@bob: please help]").ack(message).take()
    trace = office.one("select trace from messages where message_id = ?", message)
    row = office.row(
        "select trace, parent, hop, chain, from_agent, agent, sender, sender_id, thread_id, platform_id, priority, "
        "text, status, ready from messages_text where message_id <> ?",
        message,
    )
    # text outside a tag is shared context
    assert row[:-3] == (trace, message, 1, "ada", "ada", "bob", "Kim", "k", "t", "here", 2)
    assert row[-3].endswith("please help")
    assert row[-2:] == ("pending", 1)
    assert office.kinds().count("chain_handoff") == 1


async def test_a_hand_off_beyond_the_limit_is_held_with_the_reason(office: Any) -> None:
    message = await office.sent()
    office.rules = type(office.rules)(
        retry=office.rules.retry, limits=type(office.rules.limits)(hops=0), rng=office.rules.rng
    )
    _, desk = await office.begin()
    await desk.say("[@bob: again]").ack(message).take()
    status, reason, ready = office.row("select status, hold_reason, ready from messages where message_id <> ?", message)
    assert (status, ready) == ("held", 0)
    assert reason == "loop_guard"
    assert "message_held" in office.kinds()
    assert await office.claim() == []


async def test_usage_that_comes_after_the_end_of_its_run_changes_nothing(office: Any) -> None:
    """The ledger has said what the run used; its row must not say something else."""
    message = await office.sent()
    _, desk = await office.begin()
    await desk.step("usage", input=5).ack(message).take()
    await desk.step("usage", input=7).take()
    assert office.one("select input_tokens from runs") == 5


async def test_a_restored_file_is_read_again_and_nothing_is_taken_twice(office: Any) -> None:
    first = await office.sent("one")
    claimed, desk = await office.begin()
    old = desk.say("answer one", id="out_a").ack(first).page()
    await office.store.take(claimed.session, old, office.rules)
    second = await office.sent("two")
    claimed, desk = await office.begin()
    new = desk.say("answer two", id="out_b").ack(second).page()
    # an older copy of the file came back: the same epoch, numbers from the start again
    rows = [*old.messages, *old.acks, *new.messages, *new.acks]
    numbered = [replace(row, seq=seq) for seq, row in zip((1, 3, 5, 7), rows, strict=True)]
    copy = replace(new, last_seq=7, restored=True, messages=(numbered[0], numbered[2]), acks=(numbered[1], numbered[3]))
    assert await office.store.take(claimed.session, copy, office.rules) == claimed.fence
    assert office.rows("select text from responses_text order by id") == [("answer one",), ("answer two",)]
    assert office.statuses() == ["completed", "completed"]
    assert office.one("select seq from outbound_cursors") == 7


async def test_an_edit_or_a_card_is_no_answer(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("", content={"operation": "edit", "messageId": 2, "text": "new"}).ack(message).take()
    assert office.rows("select * from responses") == []
    assert "output_discarded" in office.kinds()


async def test_a_continuation_under_a_claim_that_is_over_changes_nothing(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("hi").ack(message).take(state={"continuation": "right"})
    await desk.say("late").take(state={"continuation": "stale"})
    assert office.one("select continuation from sessions") == "right"


async def test_a_run_that_sends_without_end_fails_and_the_rest_is_discarded(office: Any) -> None:
    message = await office.sent("go on")
    claimed, desk = await office.begin()
    rules = replace(office.rules, run_messages=5)
    for text in "abc":
        desk.say(text)
    await office.store.take(claimed.session, desk.page(), rules)
    for text in "defgh":
        desk.say(text)
    desk.ack(message)
    assert await office.store.take(claimed.session, desk.page(), rules) == claimed.fence
    assert office.status(message) == "dead"
    reason = "the run sent more than 5 messages"
    assert office.row("select outcome, reason from runs") == ("failed", reason)
    assert office.one("select last_error from messages") == reason
    found = office.rows("select data from events where kind = 'output_discarded' order by seq")
    assert [json.loads(data)["what"] for (data,) in found] == ["one message too many", "message", "message", "ack"]
    assert await office.store.was_flood(claimed.session, claimed.fence)
    assert not await office.store.was_flood(claimed.session, claimed.fence + 1)


async def test_each_run_may_send_as_much_as_any_other(office: Any) -> None:
    rules = replace(office.rules, run_messages=3)
    for _ in range(2):
        message = await office.sent("again")
        claimed, desk = await office.begin()
        for text in "abc":
            desk.say(text)
        await office.store.take(claimed.session, desk.ack(message).page(), rules)
        assert office.status(message) == "completed"
        assert not await office.store.was_flood(claimed.session, claimed.fence)
