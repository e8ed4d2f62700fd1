"""Forgetting: texts go, rows and events stay, and nothing goes that is still on its way."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.domain.errors import UnknownMessage, WrongState
from manydesks.store.deliver import Delivery
from manydesks.store.forget import forgettable
from manydesks.store.ledger import OfficeTransaction

SECRET = "the vault opens with seventeen turns"


async def answered(office: Any, text: str = SECRET, answer: str = "seventeen it is", **more: Any) -> str:
    message = str(await office.sent(text, **more))
    _, desk = await office.begin()
    await desk.say(answer, to=message).ack(message).take()
    await delivered(office)
    return message


async def delivered(office: Any) -> None:
    while parcels := await office.store.claim_parcels(["console"], most=10):
        for parcel in parcels:
            assert await office.store.settle(parcel, Delivery(receipt="1"))


def texts(office: Any) -> list[str]:
    return [text for (text,) in office.rows("select text from bodies order by id")]


async def test_the_message_its_arrival_and_its_answer_go(office: Any) -> None:
    message = await answered(office)
    assert SECRET in texts(office)
    events = office.rows("select seq, kind, data, body from events")
    assert await office.store.forget(message, whole_trace=False) == 2
    assert set(texts(office)) == {""}
    assert office.rows("select count(*) from bodies where erased_at is null") == [(0,)]
    assert office.one("select text from messages_text") == "(forgotten)"
    assert office.responses() == [("acked", "message", "(forgotten)")]
    assert office.rows("select b.text from agent_messages a join bodies b on b.id = a.body") == [("",), ("",)]
    # what happened is not changed, only told on
    assert office.rows("select seq, kind, data, body from events")[: len(events)] == events
    assert office.kinds(after=len(events)) == ["body_erased", "body_erased"]


async def test_what_the_ledger_gets_with_the_same_commit_is_looked_through_too(office: Any, writer: Any) -> None:
    message = await answered(office)

    def quote_and_forget(tx: OfficeTransaction) -> int:
        trace = tx.one("select trace from messages where message_id = ?", (message,))
        assert trace is not None
        tx.event("message_retried", trace=trace[0], message=message, reason=f"it said: {SECRET}")
        return len(forgettable(tx, message, whole_trace=False).quoted_in)

    assert writer.run(quote_and_forget) == 1


async def test_doing_it_again_changes_nothing(office: Any) -> None:
    message = await answered(office)
    await office.store.forget(message, whole_trace=False)
    before = office.everything()
    assert await office.store.forget(message, whole_trace=False) == 0
    assert office.everything() == before


async def test_the_bytes_are_gone_from_the_file_and_its_log(office: Any) -> None:
    long = "longer than a page " * 60 + SECRET
    await answered(office, "something else")
    message = await answered(office, SECRET)
    other = await answered(office, long[:900])
    await answered(office, "and after it")
    files = (office.path, office.path.with_name("office.db-wal"))
    assert any(SECRET.encode() in file.read_bytes() for file in files)
    await office.store.forget(message, whole_trace=False)
    await office.store.forget(other, whole_trace=False)
    assert await office.store.empty_log()
    for file in files:
        assert SECRET.encode() not in file.read_bytes()
        assert b"longer than a page" not in file.read_bytes()
    assert b"something else" in office.path.read_bytes()


async def test_a_reader_in_the_way_is_said(office: Any) -> None:
    from manydesks.store.database import open_reader

    message = await answered(office)
    db = open_reader(office.path)
    try:
        db.execute("begin")
        db.execute("select count(*) from bodies").fetchall()
        await office.store.forget(message, whole_trace=False)
        assert await office.store.empty_log() is False
    finally:
        db.close()
    assert await office.store.empty_log() is True


@pytest.mark.parametrize("whole_trace", [False, True])
async def test_what_has_not_ended_is_refused(office: Any, whole_trace: bool) -> None:
    message = await office.sent(SECRET)
    with pytest.raises(WrongState, match=f"is pending; .*`manydesks queue cancel {message}`"):
        await office.store.forget(message, whole_trace=whole_trace)
    _, desk = await office.begin()
    with pytest.raises(WrongState, match="is processing"):
        await office.store.forget(message, whole_trace=whole_trace)
    await desk.say("soon").ack(message).take()
    with pytest.raises(WrongState, match=r"An answer to the message is pending; .*`manydesks responses drop 1`"):
        await office.store.forget(message, whole_trace=whole_trace)
    assert SECRET in texts(office)
    await delivered(office)
    assert await office.store.forget(message, whole_trace=whole_trace) == 2


async def test_a_session_at_work_is_left_alone(office: Any) -> None:
    message = await answered(office)
    await office.sent("the next one")
    _, desk = await office.begin()
    with pytest.raises(WrongState, match="The agent 'ada' is at work"):
        await office.store.forget(message, whole_trace=False)
    await desk.ack("api_00000002").take()
    await office.store.forget(message, whole_trace=False)


async def test_unknown(office: Any) -> None:
    with pytest.raises(UnknownMessage):
        await office.store.forget("api_nothing1", whole_trace=False)


async def test_one_of_several_keeps_the_others_but_not_what_came_in(office: Any) -> None:
    accepted = await office.send(f"[@ada: {SECRET}] [@bob: plain words]")
    for claimed in await office.claim():
        (work,) = claimed.messages
        await office.desk(claimed).say(f"{claimed.agent} says", to=work.message_id).ack(work.message_id).take()
    await delivered(office)
    first, second = (message["messageId"] for message in accepted.messages)
    found = await office.store.forgettable(first, whole_trace=False)
    assert (found.around, found.sharing) == ((second,), ())
    await office.store.forget(first, whole_trace=False)
    assert not any(SECRET in text for text in texts(office))
    assert [text for text in texts(office) if text] == ["plain words", "bob says"]
    await office.store.forget(first, whole_trace=True)
    assert set(texts(office)) == {""}


async def test_the_same_text_for_others_goes_with_it(office: Any) -> None:
    await office.store.add_team(id="web", name="web", leader="ada", members=["ada", "bob", "cyd"])
    accepted = await office.send(f"[#web: {SECRET}]")
    ids = [message["messageId"] for message in accepted.messages]
    runs = await office.claim()
    for claimed in runs[:-1]:
        (work,) = claimed.messages
        await office.desk(claimed).ack(work.message_id).take()
    (waiting,) = runs[-1].messages
    (first, *_) = [id for id in ids if id != waiting.message_id]
    with pytest.raises(WrongState, match=f"'{waiting.message_id}' has the same text"):
        await office.store.forget(first, whole_trace=False)
    await office.desk(runs[-1]).ack(waiting.message_id).take()
    found = await office.store.forgettable(first, whole_trace=False)
    assert set(found.sharing) == set(ids) - {first}
    # from the desks of all of them, and with all of their runs
    assert set(found.messages) == set(ids)
    assert {agent for agent, _ in found.places} == {claimed.agent for claimed in runs}
    assert set(found.runs) == {claimed.run for claimed in runs}
    await office.store.forget(first, whole_trace=False)
    assert not any(SECRET in text for text in texts(office))


async def test_the_answers_of_others_to_the_same_text_go_with_it(office: Any) -> None:
    await office.store.add_team(id="web", name="web", leader="ada", members=["ada", "bob", "cyd"])
    accepted = await office.send(f"[#web: {SECRET}]")
    first, second, third = (message["messageId"] for message in accepted.messages)
    # a post on the way comes to the others in turn
    said = {second: "[#web: so seventeen]", third: "heard"}
    for claimed in await office.claim():
        (work,) = claimed.messages
        desk = office.desk(claimed)
        if (text := said.get(work.message_id)) is not None:
            desk.say(text, to=work.message_id)
        await desk.ack(work.message_id).take()
    with pytest.raises(WrongState, match=r"^The message 'chatroom_\w+' has the same text, and is pending"):
        await office.store.forget(first, whole_trace=False)
    for claimed in await office.claim():
        for work in claimed.messages:
            await office.desk(claimed).ack(work.message_id).take()
    with pytest.raises(WrongState, match=rf"^An answer to the message '({second}|{third})', which has the same text, "):
        await office.store.forget(first, whole_trace=False)
    await delivered(office)
    found = await office.store.forgettable(first, whole_trace=False)
    assert (len(found.messages), found.around) == (5, ())
    await office.store.forget(first, whole_trace=False)
    assert set(texts(office)) == {""}


async def test_reasons_leave_the_rows_and_events_that_quote_are_named(office: Any) -> None:
    message = await office.sent(f"!fail {SECRET}")
    for _ in range(2):
        _, desk = await office.begin()
        await desk.fail(message, "permanent", f"the model refused: {SECRET[4:]}").take()
        await office.store.retry(message)
    await office.store.cancel(message)
    await delivered(office)
    before = office.rows("select seq, kind, data from events")
    quoting = [seq for seq, _, data in before if SECRET[4:] in data]
    assert {kind for seq, kind, _ in before if seq in quoting} == {"message_dead", "chain_step_done"}
    found = await office.store.forgettable(message, whole_trace=False)
    assert list(found.quoted_in) == quoting
    await office.store.forget(message, whole_trace=False)
    assert office.rows("select distinct reason from runs") == [("(forgotten)",)]
    assert SECRET[4:] not in repr({**office.everything(), "events": []})
    assert office.rows("select seq, kind, data from events")[: len(before)] == before
    # the text is gone, and with it the means to look for it: what was found is remembered
    again = await office.store.forgettable(message, whole_trace=False)
    assert (again.texts, list(again.quoted_in)) == ((), quoting)


async def test_a_reason_of_other_words_is_no_quote(office: Any) -> None:
    message = await office.sent(SECRET)
    _, desk = await office.begin()
    await desk.fail(message, "permanent", "the model could not be reached within ten minutes").take()
    await delivered(office)
    assert (await office.store.forgettable(message, whole_trace=False)).quoted_in == ()
    await office.store.forget(message, whole_trace=False)
    assert office.one("select last_error from messages") == "(forgotten)"


async def test_every_text_that_was_edited_goes(office: Any) -> None:
    message = await office.sent(SECRET)
    for number in range(2):
        _, desk = await office.begin()
        await desk.fail(message, "permanent").take()
        await office.store.retry(message, f"{SECRET}, edited {number}")
    _, desk = await office.begin()
    await desk.fail(message, "permanent").take()
    await delivered(office)
    await office.store.forget(message, whole_trace=False)
    assert not any(SECRET in text for text in texts(office))
    with pytest.raises(WrongState, match="was forgotten; give it a new one"):
        await office.store.retry(message)
    await office.store.retry(message, "something new")
    assert office.status(message) == "pending"


async def test_a_forgotten_response_is_not_sent_again(office: Any) -> None:
    message = await office.sent(SECRET)
    _, desk = await office.begin()
    await desk.say("an answer").ack(message).take()
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    await office.store.settle(parcel, Delivery(dead=True, reason="no such place"))
    for claimed in await office.claim():  # the agent is told
        (work,) = claimed.messages
        await office.desk(claimed).ack(work.message_id).take()
    await office.store.forget(message, whole_trace=False)
    with pytest.raises(WrongState, match="nothing to send"):
        await office.store.resend(parcel.id)


async def test_questions_are_emptied(office: Any) -> None:
    message = await office.sent("please ask")
    _, desk = await office.begin()
    asked = {
        "operation": "ask_question", "questionId": "q1", "title": "Vault", "question": SECRET,
        "options": [{"label": "seventeen", "value": "17"}],
    }  # fmt: skip
    await desk.say("", content=asked, to=message).ack(message).take()
    await delivered(office)
    with pytest.raises(WrongState, match="waits for an answer"):
        await office.store.forget(message, whole_trace=False)
    (question,) = office.row("select id from questions")
    await office.store.answer_question(question, "seventeen", by="ada")
    for claimed in await office.claim():
        await office.desk(claimed).ack(claimed.messages[0].message_id).take()
    await office.store.forget(message, whole_trace=True)
    assert office.rows("select title, question, options, answer, selected from questions") == [("", "", "[]", "", None)]
    assert not any(SECRET in text or "seventeen" in text for text in texts(office))
    assert office.rows("select count(*) from responses where metadata is not null") == [(0,)]
