"""Questions: asked once, answered once, and the agent always learns how they ended."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, UnknownQuestion, WrongState
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.question import EXPIRES_MS
from manydesks.store.database import open_reader
from manydesks.store.deliver import Delivery
from manydesks.store.questions import BY_DESK, FIND, OF_MESSAGE, OPEN, OVERDUE, SAME, UNTOLD


def ask(desk: Any, question: str = "Deploy?", *, id: str = "question_1", options: Any = ("yes", "no"), to: str) -> Any:
    content = {
        "operation": "ask_question",
        "questionId": id,
        "question": question,
        "options": [{"label": option, "value": option} for option in options],
    }
    return desk.say(None, content=content, to=to)


def system(desk: Any, action: str, **payload: Any) -> Any:
    desk.say(None, content={"action": action, "payload": payload})
    desk._rows[-1] = replace(desk._rows[-1], kind="system")
    return desk


async def asked(office: Any) -> tuple[str, Any, Any, str]:
    """A message whose run waits for an answer: the message, the claim, the desk, the question's id."""
    message = await office.sent()
    claimed, desk = await office.begin()
    await ask(desk, to=message).take()
    (question,) = await office.store.open_questions()
    return message, claimed, desk, question["questionId"]


async def test_it_is_shown_and_waits(office: Any) -> None:
    message, claimed, _, id = await asked(office)
    assert office.responses() == [("pending", "ask_question", "Deploy?\n  1. yes\n  2. no")]
    (question,) = await office.store.open_questions()
    assert (question["messageId"], question["session"], question["waited"]) == (message, claimed.session, True)
    shown = json.loads(office.one("select metadata from responses"))["question"]
    assert (shown["id"], [option["label"] for option in shown["options"]]) == (id, ["yes", "no"])
    assert office.kinds()[-1] == "question_asked"
    assert await office.store.answers(claimed.session) == []


@pytest.mark.parametrize(
    ("said", "selected", "text"),
    [("yes", "yes", "yes"), ("NO", "no", "no"), ("2", "no", "no"), ("not today", None, "not today")],
)
async def test_an_answer_is_for_the_tool_that_waits(office: Any, said: str, selected: Any, text: str) -> None:
    _, claimed, desk, id = await asked(office)
    assert await office.store.answer_question(id, said, by="kim") == {
        "questionId": id, "agent": "ada", "selectedOption": selected, "text": text,
    }  # fmt: skip
    # no message: it would stand in the lane behind the run that waits
    assert office.one("select count(*) from messages") == 1
    (answer,) = await office.store.answers(claimed.session)
    assert (answer["questionId"], answer["selectedOption"], answer["text"], answer["userId"]) == (
        "question_1", selected, text, "kim",
    )  # fmt: skip
    await system(desk, "question_heard", questionId="question_1").take()
    assert await office.store.answers(claimed.session) == []


async def test_a_number_that_no_option_has_is_refused_unless_it_is_meant(office: Any) -> None:
    _, _, _, id = await asked(office)
    for said in ("3", "0", " 12 "):
        with pytest.raises(BadInput, match="only 1 to 2; --text sends it as text"):
            await office.store.answer_question(id, said, by="kim")
    answered = await office.store.answer_question(id, "2", by="kim", own_words=True)
    assert (answered["selectedOption"], answered["text"]) == (None, "2")


async def test_it_is_answered_once(office: Any) -> None:
    _, _, _, id = await asked(office)
    await office.store.answer_question(id, "yes", by="kim")
    before = office.everything()
    with pytest.raises(WrongState, match="is answered; only an open one can be answered"):
        await office.store.answer_question(id, "no", by="lee")
    with pytest.raises(UnknownQuestion):
        await office.store.answer_question("question_none", "no", by="lee")
    assert office.everything() == before


@pytest.mark.parametrize("said", ["", "  ", "x" * 20_001])
async def test_an_answer_has_a_size(office: Any, said: str) -> None:
    _, _, _, id = await asked(office)
    with pytest.raises(BadInput, match="1 to 20000 characters"):
        await office.store.answer_question(id, said, by="kim")


async def test_a_retried_run_asks_nothing_twice_and_gets_the_answer(office: Any) -> None:
    message, claimed, desk, id = await asked(office)
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    await office.store.settle(parcel, Delivery(receipt="r1"))
    await desk.fail(message).take()
    # the person has seen the question, and yet the message is tried again: asking twice is not possible
    assert office.status(message) == "pending"
    await office.store.answer_question(id, "yes", by="kim")
    office.clock.advance(10_000)
    again, desk = await office.begin()
    assert await office.store.answers(claimed.session) != []  # whoever asks again under another name
    await ask(desk, id="question_2", to=message).take()
    assert len(office.responses()) == 1
    (answer,) = await office.store.answers(again.session)
    assert (answer["questionId"], answer["text"]) == ("question_2", "yes")
    await system(desk, "question_heard", questionId="question_2").ack(message).take()
    assert office.statuses() == ["completed"]


async def test_the_same_words_for_another_message_are_another_question(office: Any) -> None:
    message, _, desk, id = await asked(office)
    await office.store.answer_question(id, "yes", by="kim")
    await system(desk, "question_heard", questionId="question_1").ack(message).take()
    later = await office.sent("another day")
    _, desk = await office.begin()
    await ask(desk, id="question_2", to=later).take()
    (fresh,) = await office.store.open_questions()
    assert fresh["questionId"] != id


async def test_a_question_that_is_open_is_not_asked_again_for_another_message(office: Any) -> None:
    message, _, desk, id = await asked(office)
    await system(desk, "question_left", questionId="question_1").ack(message).take()
    later = await office.sent("still there?")
    claimed, desk = await office.begin()
    await ask(desk, id="question_2", to=later).take()
    (one,) = await office.store.open_questions()
    assert (one["questionId"], one["messageId"], one["waited"]) == (id, later, True)
    await office.store.answer_question(id, "no", by="kim")
    assert [answer["questionId"] for answer in await office.store.answers(claimed.session)] == ["question_2"]


async def test_a_late_answer_is_a_message(office: Any) -> None:
    message, claimed, desk, id = await asked(office)
    await system(desk, "question_left", questionId="question_1").say("I will see.").ack(message).take()
    assert len(await office.store.open_questions()) == 1
    await office.store.answer_question(id, "yes", by="kim")
    late, _ = await office.begin()
    (work,) = late.messages
    assert (late.session, work.kind, work.sender) == (claimed.session, "system", "kim")
    assert work.content is not None
    assert {name: work.content[name] for name in ("type", "questionId", "selectedOption", "status")} == {
        "type": "question_response", "questionId": "question_1", "selectedOption": "yes", "status": "answered",
    }  # fmt: skip
    assert work.text == "kim answered your question “Deploy?”: yes"
    assert office.row("select channel, platform_id, parent, hop from messages order by id desc limit 1") == (
        "console", "here", message, 0,
    )  # fmt: skip


async def test_an_answer_that_the_tool_just_missed_is_a_message(office: Any) -> None:
    message, _, desk, id = await asked(office)
    await office.store.answer_question(id, "yes", by="kim")
    await system(desk, "question_left", questionId="question_1").ack(message).take()
    assert [kind for (kind,) in office.rows("select kind from messages order by id")] == ["chat", "system"]


async def test_an_answer_that_nobody_heard_is_a_message_when_the_run_has_ended(office: Any) -> None:
    """The program at the desk gave the call up, and ended its turn."""
    message, _, desk, id = await asked(office)
    await office.store.answer_question(id, "yes", by="kim")
    await desk.say("never mind").ack(message).take()
    assert [kind for (kind,) in office.rows("select kind from messages order by id")] == ["chat", "system"]
    assert office.one("select told from questions") == 1


async def test_a_question_ends_with_a_message_that_failed(office: Any) -> None:
    _, claimed, _, id = await asked(office)
    failure = Failure(kind=FailureClass.PERMANENT, reason="no key")
    await office.store.run_died(claimed.session, claimed.fence, failure, office.rules)
    assert office.row("select status, told from questions") == ("withdrawn", 1)
    with pytest.raises(WrongState, match="is withdrawn"):
        await office.store.answer_question(id, "yes", by="kim")
    assert office.one("select count(*) from messages") == 1


async def test_a_question_that_nobody_answers_expires_and_its_agent_is_told(office: Any) -> None:
    message, _, desk, id = await asked(office)
    await system(desk, "question_left", questionId="question_1").ack(message).take()
    assert await office.store.next_timer() == EXPIRES_MS
    office.clock.advance(EXPIRES_MS)
    told, _ = await office.begin()
    assert "Nobody answered your question “Deploy?” in time" in told.messages[0].text
    assert office.one("select status from questions") == "expired"
    assert "question_expired" in office.kinds()
    with pytest.raises(WrongState, match="is expired"):
        await office.store.answer_question(id, "yes", by="kim")


@pytest.mark.parametrize(
    "change",
    [
        {"questionId": 1},
        {"questionId": "no id!"},
        {"question": ""},
        {"question": None},
        {"question": "x" * 4_001},
        {"title": ["x"]},
        {"options": "yes"},
        {"options": ["yes"]},
        {"options": [{"label": ""}]},
        {"options": [{"label": "a"}] * 21},
    ],
)
async def test_a_forged_question_is_discarded(office: Any, change: dict[str, Any]) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    good = {"operation": "ask_question", "questionId": "question_1", "question": "Deploy?", "options": []}
    await desk.say(None, content={**good, **change}).say("fine").ack(message).take()
    assert await office.store.open_questions() == []
    assert [operation for _, operation, _ in office.responses()] == ["message"]


async def test_a_desk_hears_and_leaves_only_its_own(office: Any) -> None:
    _, claimed, _, id = await asked(office)
    await office.sent(to="bob")
    _, bob = await office.begin()
    await office.store.answer_question(id, "yes", by="kim")
    await system(bob, "question_heard", questionId="question_1").take()
    assert len(await office.store.answers(claimed.session)) == 1
    assert json.loads(office.rows("select data from events where kind = 'output_discarded'")[0][0])["what"] == (
        "unknown target"
    )


async def test_a_trace_with_an_open_question_is_kept(office: Any) -> None:
    message, _, desk, id = await asked(office)
    await system(desk, "question_left", questionId="question_1").ack(message).take()
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    await office.store.settle(parcel, Delivery(receipt="r1"))

    async def prune() -> None:
        office.clock.advance(2 * 86_400_000)
        await office.store.note("processor_start")  # the newest event stays in any case
        while (await office.store.prune(keep_ms=86_400_000, require_archive=False)).more:
            pass

    await prune()
    assert office.status(message) == "completed"
    await office.store.answer_question(id, "yes", by="kim")
    claimed, desk = await office.begin()
    await desk.ack(claimed.messages[0].message_id).take()
    await prune()
    assert office.rows("select * from messages") == []
    assert office.rows("select * from questions") == []


def test_every_look_at_questions_has_its_index(path: Any, writer: Any) -> None:
    db = open_reader(path)
    try:
        for sql in (FIND, SAME, BY_DESK, OF_MESSAGE, UNTOLD, OVERDUE, OPEN):
            values = tuple(range(3 if sql is SAME else sql.count("?")))
            plan = " | ".join(str(row[-1]) for row in db.execute(f"explain query plan {sql}", values))
            assert "USING INDEX" in plan, (sql, plan)
    finally:
        db.close()
