"""Rows of a desk that are no plain answer: edits, reactions, cards, files, work for a mate."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.attachment import Attachment, NotTaken
from manydesks.domain.loopguard import Limits
from manydesks.store.deliver import Delivery


def system(desk: Any, action: str, *, id: str = "", **payload: Any) -> Any:
    desk.say(None, content={"action": action, "payload": payload}, id=id)
    desk._rows[-1] = replace(desk._rows[-1], kind="system")
    return desk


def discarded(office: Any) -> list[str]:
    rows = office.rows("select data from events where kind = 'output_discarded' order by seq")
    return [json.loads(data)["what"] for (data,) in rows]


async def deliver(office: Any) -> list[Any]:
    """Everything that can be sent, in order, each with a receipt of its own."""
    sent: list[Any] = []
    while parcels := await office.store.claim_parcels(["console"], most=10):
        for parcel in parcels:
            await office.store.settle(parcel, Delivery(receipt=f"r{parcel.id}"))
        sent += parcels
    return sent


# edits and reactions


async def test_an_edit_goes_where_the_message_went_and_names_it(office: Any) -> None:
    first = await office.sent(platform_id="here", sender="Kim")
    _, desk = await office.begin()
    await desk.say("draft", id="out_draft").ack(first).take()
    await deliver(office)
    later = await office.sent(platform_id="elsewhere", sender="Lee")
    _, desk = await office.begin()
    await desk.say(None, content={"operation": "edit", "target": "out_draft", "text": "final"}).ack(later).take()
    (parcel,) = await deliver(office)
    assert (parcel.operation, parcel.text, parcel.platform_id, parcel.sender) == ("edit", "final", "here", "Kim")
    assert parcel.target == "r1"
    said = "select text from agent_messages a join bodies b on b.id = a.body where role = 'assistant'"
    assert office.rows(said) == [("draft",)]


async def test_a_reaction_is_for_a_message_that_was_given_or_for_an_own_one(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    desk.say("hello", id="out_hello")
    for target, emoji in ((message, "👀"), ("out_hello", "👍")):
        desk.say(None, content={"operation": "reaction", "target": target, "emoji": emoji})
    await desk.ack(message).take()
    assert [(p.operation, p.text, p.target) for p in await deliver(office)] == [
        ("message", "hello", None), ("reaction", "👀", None), ("reaction", "👍", "r1"),
    ]  # fmt: skip


async def test_nothing_of_another_session_can_be_touched(office: Any) -> None:
    mine, other = await office.sent(to="ada"), await office.sent(to="bob")
    ada, bob = await office.claim()
    await office.desk(bob).say("secret", id="out_bob").ack(other).take()
    desk = office.desk(ada)
    for content in (
        {"operation": "edit", "target": "out_bob", "text": "x"},
        {"operation": "edit", "target": other, "text": "x"},
        {"operation": "edit", "target": mine, "text": "x"},
        {"operation": "edit", "target": "out_none", "text": "x"},
        {"operation": "reaction", "target": "out_bob", "emoji": "x"},
        {"operation": "reaction", "target": other, "emoji": "x"},
    ):
        desk.say(None, content=content)
    await desk.ack(mine).take()
    assert discarded(office) == ["unknown target"] * 6
    assert [text for _, _, text in office.responses()] == ["secret"]


@pytest.mark.parametrize(
    "content",
    [
        {"operation": "edit", "target": "out_1", "text": ""},
        {"operation": "edit", "target": 1, "text": "x"},
        {"operation": "edit", "messageId": 1, "text": "x"},
        {"operation": "reaction", "target": "out_1", "emoji": "x" * 33},
        {"operation": "reaction", "target": "out_1"},
        {"operation": "card", "card": {"title": ""}},
        {"operation": "card", "card": {"title": "a", "actions": [{"label": "run", "url": "javascript:alert(1)"}]}},
        {"operation": "card", "card": {"title": "a", "fields": [{"name": "x"}]}},
        {"operation": "card", "fallbackText": "x"},
        {"operation": "explode"},
    ],
)
async def test_what_cannot_be_read_is_discarded(office: Any, content: dict[str, Any]) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("one").say(None, content=content).ack(message).take()
    assert discarded(office) == ["unreadable message"]
    assert office.status(message) == "completed"


async def test_what_means_the_same_twice_does_not_keep_a_run_from_being_tried_again(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say(None, content={"operation": "reaction", "target": message, "emoji": "👀"}).take()
    await deliver(office)
    await desk.fail(message).take()
    assert office.status(message) == "pending"


# cards and files


async def test_a_card_keeps_its_parts_and_has_a_text(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    card = {"title": "Done", "fields": [{"name": "tests", "value": "12", "evil": 1}], "colour": "red"}
    await desk.say(None, content={"operation": "card", "card": card, "fallbackText": "all done"}).ack(message).take()
    (parcel,) = await deliver(office)
    assert (parcel.operation, parcel.text) == ("card", "all done")
    assert parcel.metadata["card"] == {
        "title": "Done", "description": None, "fields": [{"name": "tests", "value": "12"}], "actions": [],
    }  # fmt: skip


async def test_files_come_with_their_response(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    file = Attachment(name="a.txt", bytes=3, sha256="ab" * 32, path="files/abab/a.txt")
    taken = {"out_1": (file, NotTaken(name="b.txt", reason="it is a symbolic link"))}
    page = desk.say(None, content={"text": "", "files": ["a.txt", "b.txt"]}, id="out_1").ack(message).page()
    await office.store.take(claimed.session, page, office.rules, taken)
    (parcel,) = await deliver(office)
    assert parcel.files == (file,)
    assert parcel.text == "(The file 'b.txt' could not be sent: it is a symbolic link.)"
    assert await office.store.named_files() == {"files/abab/a.txt"}


# work for a mate


async def test_the_answer_of_a_mate_comes_back(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await system(desk, "send_to_agent", agent="bob", text="count").say("bob does it").ack(message).take()
    claimed, bob = await office.begin()
    (work,) = claimed.messages
    assert (claimed.agent, work.text, work.from_agent, work.hop) == ("bob", "count", "ada", 1)
    await bob.say("one, two").say("three").ack(work.message_id).take()
    back, _ = await office.begin()
    (told,) = back.messages
    assert (back.agent, told.kind, told.from_agent, told.hop) == ("ada", "system", "bob", 2)
    assert told.text == "@bob: one, two\n\nthree"
    assert told.content is not None
    assert (told.content["status"], told.content["agent"]) == ("answered", "bob")
    # the person reads all of it
    assert [text for _, _, text in office.responses()] == ["bob does it", "one, two", "three"]


async def test_a_mate_that_fails_is_told_too(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await system(desk, "send_to_agent", agent="bob", text="count").ack(message).take()
    claimed, bob = await office.begin()
    await bob.fail(claimed.messages[0].message_id, "permanent", "no key").take()
    back, _ = await office.begin()
    assert back.messages[0].text == "@bob did not answer: no key"


async def test_work_that_the_owner_takes_back_is_told_too(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await system(desk, "send_to_agent", agent="bob", text="count").ack(message).take()
    await office.store.cancel(office.one("select message_id from messages where agent = 'bob'"))
    back, _ = await office.begin()
    assert back.messages[0].text == "@bob did not answer: it was cancelled"


async def test_an_answer_is_told_once(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await system(desk, "send_to_agent", agent="bob", text="count").ack(message).take()
    claimed, bob = await office.begin()
    await bob.fail(claimed.messages[0].message_id, "permanent", "no key").take()
    await office.store.retry(claimed.messages[0].message_id)
    runs = {one.agent: one for one in await office.claim()}
    await office.desk(runs["bob"]).say("now").ack(claimed.messages[0].message_id).take()
    assert office.one("select count(*) from messages where kind = 'system'") == 1


@pytest.mark.parametrize(
    ("agent", "sentence"),
    [
        ("bbo", "There is no agent 'bbo'; did you mean 'bob'?"),
        ("ada", "You cannot send work to yourself."),
        ("zzzzzz", "There is no agent 'zzzzzz'."),
    ],
)
async def test_work_for_nobody_is_answered_with_the_reason(office: Any, agent: str, sentence: str) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await system(desk, "send_to_agent", agent=agent, text="count").ack(message).take()
    back, _ = await office.begin()
    assert (back.agent, back.messages[0].text) == ("ada", f"Nothing was sent. {sentence}")


async def test_an_agent_that_never_learns_is_stopped(office: Any) -> None:
    office.rules = replace(office.rules, limits=Limits(hops=3))
    message = await office.sent()
    for _ in range(10):
        found = await office.claim()
        if not found:
            break
        (claimed,) = found
        desk = office.desk(claimed)
        await system(desk, "send_to_agent", agent="bbo", text="x").ack(claimed.messages[0].message_id).take()
    assert office.one("select max(hop) from messages") == 3
    assert discarded(office) == ["refused message"]
    assert office.status(message) == "completed"


async def test_the_loop_guard_holds_for_asking_too(office: Any) -> None:
    office.rules = replace(office.rules, limits=Limits(per_pair_minute=2))
    message = await office.sent()
    _, desk = await office.begin()
    for _ in range(3):
        system(desk, "send_to_agent", agent="bob", text="again")
    await desk.ack(message).take()
    assert [status for (status,) in office.rows("select status from messages where agent = 'bob' order by id")] == [
        "pending", "pending", "held",
    ]  # fmt: skip


async def test_a_repeated_file_hands_nothing_over_twice(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await system(desk, "send_to_agent", id="out_same", agent="bob", text="count").take()
    office.seqs.clear()
    await system(desk, "send_to_agent", id="out_same", agent="bob", text="count").ack(message).take(epoch="cd" * 16)
    assert office.one("select count(*) from messages where agent = 'bob'") == 1
    assert discarded(office) == ["repeated message"]


@pytest.mark.parametrize(
    "content", [{}, {"action": "rm"}, {"action": "send_to_agent"}, {"action": "send_to_agent", "payload": {"agent": 1}}]
)
async def test_other_requests_to_the_office_are_discarded(office: Any, content: dict[str, Any]) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    desk.say(None, content=content)
    desk._rows[-1] = replace(desk._rows[-1], kind="system")
    await desk.ack(message).take()
    assert discarded(office) == ["unreadable message"]
