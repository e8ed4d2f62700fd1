from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.budget import MICROS, Amounts, Budget, day_of
from manydesks.domain.errors import BadInput, WrongState
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.prices import Price, Prices
from manydesks.store.reader import Reader
from manydesks.testing.clock import ManualClock

DAY = 24 * 3_600_000


def runs(**caps: int) -> Budget:
    return Budget(**{scope: Amounts(runs=most) for scope, most in caps.items()})


def usd(**caps: float) -> Budget:
    return Budget(
        **{scope: Amounts(usd=round(most * MICROS)) for scope, most in caps.items()},
        first=Amounts(usd=100_000, tokens=1000, runs=1),
    )


async def done(office: Any, *, to: str = "ada", cost: float | None = None, tokens: int | None = None) -> None:
    """One message, sent, worked on and answered."""
    message = await office.sent(to=to)
    claimed = next(one for one in await office.claim() if one.agent == to)
    desk = office.desk(claimed)
    if cost is not None or tokens is not None:
        desk.step("usage", input=tokens, cost_usd=cost)
    await desk.say("done").ack(message).take()


def spending(office: Any, scope: str, subject: str = "") -> dict[str, int]:
    names = ("spent_usd", "spent_tokens", "spent_runs", "reserved_usd", "reserved_tokens", "reserved_runs")
    found = office.rows(f"select {', '.join(names)} from spending where scope = ? and subject = ?", scope, subject)
    return dict(zip(names, found[0], strict=True)) if found else {}


def paused(office: Any, agent: str = "ada") -> tuple[int, str | None]:
    flag, reason = office.row("select paused, pause_reason from agents where id = ?", agent)
    return flag, reason


async def test_without_caps_runs_are_booked_and_nothing_is_reserved(office: Any) -> None:
    await done(office, cost=0.25, tokens=100)
    assert spending(office, "agent", "ada") == spending(office, "office")
    assert spending(office, "office") == {
        "spent_usd": 250_000, "spent_tokens": 100, "spent_runs": 1,
        "reserved_usd": 0, "reserved_tokens": 0, "reserved_runs": 0,
    }  # fmt: skip
    assert office.rows("select seq from events where kind like 'budget%'") == []


async def test_a_run_reserves_and_is_settled(office: Any) -> None:
    office.store.budget = usd(agent=1.0)
    message = await office.sent()
    _, desk = await office.begin()
    assert spending(office, "agent", "ada")["reserved_usd"] == 100_000
    assert spending(office, "office")["reserved_runs"] == 1
    await desk.step("usage", input=3, output=4, cost_usd=0.5).say("hi").ack(message).take()
    assert spending(office, "agent", "ada") == {
        "spent_usd": 500_000, "spent_tokens": 7, "spent_runs": 1,
        "reserved_usd": 0, "reserved_tokens": 0, "reserved_runs": 0,
    }  # fmt: skip
    settled = json.loads(office.one("select data from events where kind = 'budget_settled'"))
    assert (settled["usd"], settled["tokens"]) == (0.5, 7)


async def test_no_room_pauses_the_agent_and_asks_once(office: Any) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    first, second = await office.sent(), await office.sent()
    assert await office.claim() == []
    assert await office.claim() == []
    assert paused(office) == (2, "ada has used 1 run of 1 run on 2023-11-14.")
    assert (office.status(first), office.status(second)) == ("pending", "pending")
    (question,) = await office.store.open_questions()
    assert "ada has used 1 run of 1 run" in question["question"]
    assert [option["value"] for option in question["options"]] == ["allow", "keep"]
    asked, told = office.rows(
        "select text, channel, platform_id, message_id from responses_text where operation = 'notice' order by id"
    )
    assert f"`manydesks answer {question['questionId']} 1`" in asked[0]
    assert asked[1:] == ("console", "terminal", None)
    # whoever waits for the answer hears of it where it would come
    said = "ada is paused, so this waits: ada has used 1 run of 1 run on 2023-11-14."
    assert told == (said, "console", "here", first)
    assert (await office.send("and this?")).notices == (said,)
    exceeded = json.loads(office.one("select data from events where kind = 'budget_exceeded'"))
    assert (exceeded["scope"], exceeded["unit"], exceeded["cap"]) == ("agent", "runs", 1)


async def test_others_work_on(office: Any) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    await done(office, to="bob")
    assert (paused(office)[0], paused(office, "bob")[0]) == (2, 0)


async def test_allowing_as_much_again_lets_the_agent_go_on_and_asks_again_later(office: Any) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    assert await office.claim() == []
    (question,) = await office.store.open_questions()
    said = await office.store.answer_question(question["questionId"], "1", by="ann")
    assert (said["selectedOption"], said["effect"]) == ("allow", "ada may use as much again")
    (claimed,) = await office.claim(batch=1)
    assert paused(office) == (0, None)
    await office.desk(claimed).ack(claimed.messages[0].message_id).take()
    await office.sent()
    assert await office.claim() == []
    (again,) = await office.store.open_questions()
    assert again["questionId"] != question["questionId"]
    assert "2 runs of 2 runs" in again["question"]


async def test_keeping_it_paused_asks_no_more(office: Any) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    await office.claim()
    (question,) = await office.store.open_questions()
    await office.store.answer_question(question["questionId"], "keep", by="ann")
    assert await office.claim() == []
    assert await office.store.open_questions() == []
    assert paused(office)[0] == 2


@pytest.mark.parametrize(("said", "own_words"), [("maybe", False), ("3", False), ("allow", True)])
async def test_the_office_understands_its_options_only(office: Any, said: str, own_words: bool) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    await office.claim()
    (question,) = await office.store.open_questions()
    with pytest.raises(BadInput, match=r"1 \(Allow as much again\) or 2"):
        await office.store.answer_question(question["questionId"], said, by="ann", own_words=own_words)
    assert len(await office.store.open_questions()) == 1


async def test_a_new_day_lifts_the_pause(office: Any, clock: ManualClock) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    message = await office.sent()
    await office.claim()
    wait = await office.store.next_timer()
    assert wait == 6_400_000
    clock.advance(wait - 1)
    assert await office.claim() == []
    clock.advance(1)
    (claimed,) = await office.claim()
    assert claimed.messages[0].message_id == message
    assert paused(office) == (0, None)
    assert await office.store.open_questions() == []
    assert office.one("select status from questions") == "expired"


async def test_a_new_day_in_the_offices_zone(office: Any, clock: ManualClock) -> None:
    office.store.budget = replace(runs(agent=1), time_zone="Asia/Tokyo")
    await done(office)
    await office.sent()
    await office.claim()
    assert "2023-11-15" in str(paused(office)[1])
    clock.advance(6_400_000)
    assert await office.claim() == []


async def test_what_a_person_has_paused_stays_so(office: Any, clock: ManualClock) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    await office.claim()
    assert await office.store.pause("ada") is True
    clock.advance(DAY)
    assert await office.claim() == []
    assert paused(office)[0] == 1
    assert await office.store.resume("ada") is True
    assert len(await office.claim()) == 1


async def test_a_person_cannot_resume_what_a_budget_has_paused(office: Any) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    await office.claim()
    with pytest.raises(WrongState, match="paused by a budget: ada has used 1 run of 1 run"):
        await office.store.resume("ada")
    # with both, a person takes back what a person did
    await office.store.pause("ada")
    assert await office.store.resume("ada") is True
    assert paused(office)[0] == 2


async def test_a_higher_cap_lifts_the_pause_and_withdraws_the_question(office: Any) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    await office.claim()
    office.store.budget = runs(agent=2)
    assert len(await office.claim()) == 1
    assert office.one("select status from questions") == "withdrawn"


async def test_an_agents_own_cap_goes_before(office: Any) -> None:
    await office.store.edit_agent("bob", {"budget": {"runs": 2}})
    office.store.budget = runs(agent=1)
    for _ in range(2):
        await done(office, to="bob")
    await office.sent(to="bob")
    assert await office.claim() == []
    assert paused(office, "bob")[1] == "bob has used 2 runs of 2 runs on 2023-11-14."


async def test_the_offices_day_asks_once_for_all(office: Any) -> None:
    office.store.budget = runs(office=2)
    await done(office)
    await done(office, to="bob")
    await office.sent()
    await office.sent(to="bob")
    await office.sent(to="cyd")
    assert await office.claim() == []
    assert [paused(office, agent)[0] for agent in ("ada", "bob", "cyd")] == [2, 2, 2]
    (question,) = await office.store.open_questions()
    assert question["question"].startswith("The office has used 2 runs of 2 runs on 2023-11-14.")
    await office.store.answer_question(question["questionId"], "allow", by="ann")
    assert len(await office.claim()) == 2


async def test_what_is_reserved_makes_others_wait_without_a_word(office: Any) -> None:
    office.store.budget = runs(office=1)
    message = await office.sent()
    _, desk = await office.begin()
    await office.sent(to="bob")
    before = office.head()
    assert await office.claim() == []
    assert office.head() == before
    assert paused(office, "bob")[0] == 0
    await desk.ack(message).take()
    assert await office.claim() == []
    assert paused(office, "bob")[0] == 2


async def test_dollars_are_reserved_by_the_95th_percentile(office: Any) -> None:
    office.store.budget = usd(agent=100.0)
    for cost in (0.5, 2.0, 0.1):
        await done(office, cost=cost)
    await office.sent()
    await office.begin()
    assert spending(office, "agent", "ada")["reserved_usd"] == 2_000_000


async def test_failed_and_silent_runs_count(office: Any) -> None:
    office.store.budget = usd(agent=1.0)
    await office.sent()
    claimed, desk = await office.begin()
    await desk.step("usage", input=10, cost_usd=0.6).take()
    failure = Failure(kind=FailureClass.PERMANENT, reason="boom")
    await office.store.run_died(claimed.session, claimed.fence, failure, office.rules)
    assert spending(office, "agent", "ada")["spent_usd"] == 600_000
    await office.sent()
    assert await office.claim() == []  # the next would need 0.6 again
    assert "the next run needs about $0.60" in str(paused(office)[1])


async def test_runs_that_are_given_back_are_settled(office: Any) -> None:
    office.store.budget = usd(agent=1.0)
    await office.sent()
    claimed, _ = await office.begin()
    await office.store.run_released(claimed.session, claimed.fence, "closing")
    assert spending(office, "agent", "ada") == {
        "spent_usd": 0, "spent_tokens": 0, "spent_runs": 1,
        "reserved_usd": 0, "reserved_tokens": 0, "reserved_runs": 0,
    }  # fmt: skip


async def test_a_killed_host_settles_what_it_had_reserved(office: Any) -> None:
    office.store.budget = usd(agent=1.0)
    await office.sent()
    _, desk = await office.begin()
    await desk.step("usage", input=10, cost_usd=0.2).take()
    await office.reopen()
    office.store.budget = usd(agent=1.0)
    assert spending(office, "agent", "ada")["reserved_usd"] == 100_000
    await office.store.release(office.rules, {})
    found = spending(office, "agent", "ada")
    assert (found["spent_usd"], found["reserved_usd"], found["reserved_runs"]) == (200_000, 0, 0)
    assert len(await office.claim()) == 1


async def test_an_unknown_price_binds_tokens_and_runs_only(office: Any) -> None:
    office.store.budget = Budget(agent=Amounts(usd=1, tokens=250), first=Amounts(usd=1, tokens=100, runs=1))
    await done(office, tokens=100)
    await done(office, tokens=100)
    assert spending(office, "agent", "ada")["spent_usd"] == 0
    await office.sent()
    assert await office.claim() == []
    assert "200 tokens of 250 tokens" in str(paused(office)[1])


async def test_unknown_tokens_bind_runs_only(office: Any) -> None:
    office.store.budget = Budget(agent=Amounts(usd=1, tokens=1, runs=3), first=Amounts(usd=1, tokens=1, runs=1))
    for _ in range(3):
        await done(office)
    await office.sent()
    assert await office.claim() == []
    assert "3 runs of 3 runs" in str(paused(office)[1])


async def test_a_cost_is_computed_where_the_owner_named_a_price(office: Any) -> None:
    office.rules = replace(office.rules, prices=Prices(of=(Price(model="m-1*", input=2.0, output=10.0),)))
    message = await office.sent()
    _, desk = await office.begin()
    desk.step("usage", input=500_000, output=100_000, model="m-1.5").step("usage", input=5, model="m-2")
    await desk.step("usage", input=5, cost_usd=1.0, model="m-1").ack(message).take()
    assert office.one("select cost_usd from runs") == 3.0  # 1 + 1 by the table, 1 as it said, m-2 has no price
    assert spending(office, "office")["spent_usd"] == 3 * MICROS


async def test_numbers_that_no_column_holds_end_the_run_all_the_same(office: Any) -> None:
    for _ in range(3):
        await done(office, cost=1e15, tokens=10**15)
    assert spending(office, "office")["spent_usd"] == 3 * 10**15
    writer = office.store._writer
    writer.run(lambda tx: tx.run("update spending set spent_usd = 9000000000000000000 where scope = 'office'"))
    await done(office, cost=1e15)
    assert spending(office, "office")["spent_usd"] == 9_000_000_000_000_000_000


async def test_a_trace_without_room_holds_its_message(office: Any) -> None:
    office.store.budget = runs(trace=1)
    message = await office.sent(text="hello")
    _, desk = await office.begin()
    await desk.say("[@bob: look at this]").ack(message).take()
    other = await office.sent(to="bob")
    (claimed,) = await office.claim()
    # the agent itself works on, for others
    assert [work.message_id for work in claimed.messages] == [other]
    assert paused(office, "bob") == (0, None)
    held, reason, why = office.row("select message_id, hold_reason, last_error from messages where state = 2")
    assert (reason, why) == ("budget", "What follows from this message has used 1 run of 1 run.")
    told = office.rows("select text, message_id from responses_text where operation = 'notice'")
    assert [(held in text, whose) for text, whose in told] == [(True, held)]
    assert await office.store.open_questions() == []
    await office.desk(claimed).ack(other).take()
    # whoever lets it go on allows the trace as much again
    await office.store.release_held(held)
    (again,) = await office.claim()
    assert again.messages[0].message_id == held


async def test_with_a_cap_on_traces_a_run_is_of_one_trace(office: Any) -> None:
    office.store.budget = usd(trace=5.0)
    one, two = await office.sent(), await office.sent()
    (claimed,) = await office.claim(batch=10)
    assert [work.message_id for work in claimed.messages] == [one]
    more = await office.store.claim_more([(claimed.session, claimed.fence)], batch=10)
    assert more == {}
    await office.desk(claimed).ack(one).take()
    (claimed,) = await office.claim(batch=10)
    assert [work.message_id for work in claimed.messages] == [two]


async def test_one_release_for_all_that_were_held_together(office: Any) -> None:
    office.store.budget = runs(trace=1)
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("[@bob: one] [@cyd: two]").ack(message).take()
    assert await office.claim() == []
    held = [id for (id,) in office.rows("select message_id from messages where state = 2 order by id")]
    assert len(held) == 2
    for id in held:
        await office.store.release_held(id)
    assert office.one("select extra from spending where scope = 'trace'") == 1
    assert len(await office.claim()) == 1


async def test_a_run_may_spend_until_nothing_is_left(office: Any) -> None:
    office.store.budget = Budget(agent=Amounts(tokens=1000), first=Amounts(tokens=100, runs=1))
    await done(office, tokens=300)
    message = await office.sent()
    claimed, desk = await office.begin()
    assert await office.store.may_spend(claimed.session) is None
    await office.store.meter(claimed.session, usd=None, tokens=699)
    assert await office.store.may_spend(claimed.session) is None
    await office.store.meter(claimed.session, usd=None, tokens=1)
    said = await office.store.may_spend(claimed.session)
    assert said == "This run has used 700 tokens, and no more is left of ada's budget for the day, 1,000 tokens."
    # the desk's own word is less than what the proxy has seen
    await desk.step("usage", input=5).ack(message).take()
    assert spending(office, "agent", "ada")["spent_tokens"] == 1000


async def test_calls_between_two_runs_are_the_agents(office: Any) -> None:
    office.store.budget = Budget(agent=Amounts(tokens=1000), first=Amounts(tokens=100, runs=1))
    message = await office.sent()
    claimed, desk = await office.begin()
    await desk.step("usage", input=900).ack(message).take()
    assert await office.store.may_spend(claimed.session) is None
    await office.store.meter(claimed.session, usd=None, tokens=100)
    assert spending(office, "agent", "ada")["spent_tokens"] == spending(office, "office")["spent_tokens"] == 1000
    said = await office.store.may_spend(claimed.session)
    assert said == "ada has no run under way, and nothing is left of the day's budget."
    # nobody's session is nobody's money
    await office.store.meter("session_x", usd=1.0, tokens=100)
    assert await office.store.may_spend("session_x") is None
    assert spending(office, "office")["spent_tokens"] == 1000


async def test_what_others_have_reserved_is_not_this_runs(office: Any) -> None:
    office.store.budget = Budget(office=Amounts(tokens=1000), first=Amounts(tokens=400, runs=1))
    await office.sent()
    await office.sent(to="bob")
    ada, bob = sorted(await office.claim(), key=lambda claimed: claimed.agent)
    await office.store.meter(ada.session, usd=None, tokens=600)
    assert "the office's budget" in str(await office.store.may_spend(ada.session))
    assert await office.store.may_spend(bob.session) is None


async def test_dollars_cut_where_the_price_is_known(office: Any) -> None:
    office.store.budget = usd(agent=1.0)
    await office.sent()
    claimed, _ = await office.begin()
    await office.store.meter(claimed.session, usd=None, tokens=10**9)
    assert await office.store.may_spend(claimed.session) is None
    await office.store.meter(claimed.session, usd=1.0, tokens=1)
    assert "used $1.00, and no more is left" in str(await office.store.may_spend(claimed.session))


async def test_usage_by_agent_model_and_day(office: Any, reader: Reader, clock: ManualClock) -> None:
    await done(office, cost=0.5, tokens=10)
    await done(office)
    clock.advance(DAY)
    await done(office, to="bob", tokens=7)
    found = reader.usage(by="agent")
    assert [(row["agent"], row["runs"], row["inputTokens"], row["costUsd"], row["unknownCost"])
            for row in found["rows"]] == [("ada", 2, 10, 0.5, 1), ("bob", 1, 7, None, 1)]  # fmt: skip
    assert found["total"]["runs"] == 3
    assert (found["total"]["costUsd"], found["total"]["unknownCost"], found["total"]["unknownTokens"]) == (0.5, 2, 1)
    assert [row["day"] for row in reader.usage(by="day")["rows"]] == ["2023-11-14", "2023-11-15"]
    assert [row["agent"] for row in reader.usage(since="2023-11-15")["rows"]] == ["bob"]
    assert reader.usage(since="2024-01-01")["total"]["runs"] == 0
    assert [row["model"] for row in reader.usage(by="model")["rows"]] == [""]


async def test_what_is_left_of_caps(office: Any, reader: Reader, clock: ManualClock) -> None:
    budget = office.store.budget = Budget(
        agent=Amounts(usd=2 * MICROS), office=Amounts(runs=5), first=Amounts(usd=500_000, runs=1)
    )
    await done(office, cost=0.25)
    await office.sent()
    await office.claim()
    day = day_of(clock.now(), "UTC")
    lines = {(line["agent"], line["unit"]): line for line in reader.caps(budget, day)}
    assert set(lines) == {(None, "runs"), ("ada", "usd"), ("bob", "usd"), ("cyd", "usd")}
    ada = lines["ada", "usd"]
    assert (ada["cap"], ada["spent"], ada["reserved"], ada["left"]) == (2.0, 0.25, 0.25, 1.5)
    assert lines[None, "runs"]["left"] == 3
    assert json.dumps(reader.caps(budget, "1999-01-01"))


async def test_the_reader_says_why_an_agent_is_paused(office: Any, reader: Reader) -> None:
    office.store.budget = runs(agent=1)
    await done(office)
    await office.sent()
    await office.claim()
    ada = next(row for row in reader.agents() if row["id"] == "ada")
    assert (ada["paused"], ada["pauseReason"]) == (True, "ada has used 1 run of 1 run on 2023-11-14.")
