"""T4: responses are claimed in order, sent, and settled by what the channel said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manydesks.store.deliver import Delivery


async def answered(office: Any, *texts: str, **more: Any) -> str:
    message = await office.sent(**more)
    (claimed,) = await office.claim()
    desk = office.desk(claimed)
    for text in texts:
        desk.say(text)
    await desk.ack(message).take()
    return str(message)


async def test_a_parcel_says_where_it_goes(office: Any) -> None:
    message = await answered(office, "hi", sender="Kim", thread="t", instance="i")
    assert await office.store.claim_parcels(["console"], most=10) == []
    (parcel,) = await office.store.claim_parcels(["console/i"], most=10)
    assert (parcel.message_id, parcel.part, parcel.attempt, parcel.text) == (message, 1, 1, "hi")
    assert (parcel.channel, parcel.instance, parcel.platform_id, parcel.thread) == ("console", "i", "here", "t")
    assert (parcel.sender, parcel.agent, parcel.operation) == ("Kim", "ada", "message")
    assert parcel.created_at == office.clock.now()
    assert office.responses() == [("sending", "message", "hi")]


async def test_notices_of_the_answer_travel_with_it(office: Any) -> None:
    await answered(office, "[@bub: hello]")
    (parcel,) = await office.store.claim_parcels(["console"], most=10)
    shown, notice = parcel.text.split("\n\n")
    assert shown == "[@bub: hello]"
    assert "bub" in notice


async def test_one_conversation_is_sent_in_order_one_at_a_time(office: Any) -> None:
    await answered(office, "one", "two", "three")
    sent = []
    while parcels := await office.store.claim_parcels(["console"], most=10):
        (parcel,) = parcels
        assert await office.store.claim_parcels(["console"], most=10) == []
        sent.append(parcel.text)
        assert await office.store.settle(parcel, Delivery(receipt=f"r-{parcel.text}")) is True
    assert sent == ["one", "two", "three"]
    assert office.rows("select status, receipts, acked_at from responses") == [
        ("acked", json.dumps([f"r-{text}"]), office.clock.now()) for text in sent
    ]
    assert office.kinds().count("response_delivered") == 3


async def test_conversations_are_sent_side_by_side(office: Any) -> None:
    for place in ("x", "y", "z"):
        await answered(office, place, platform_id=place)
    parcels = await office.store.claim_parcels(["console"], most=2)
    assert [parcel.text for parcel in parcels] == ["x", "y"]
    assert [parcel.text for parcel in await office.store.claim_parcels(["console"], most=2)] == ["z"]


async def test_a_response_for_a_channel_that_is_not_there_waits(office: Any) -> None:
    await answered(office, "hi", channel="telegram")
    assert await office.store.claim_parcels(["console"], most=10) == []
    assert [status for status, _, _ in office.responses()] == ["pending"]
    assert len(await office.store.claim_parcels(["console", "telegram"], most=10)) == 1


async def test_a_failed_sending_keeps_its_place_and_holds_the_conversation(office: Any, clock: Any) -> None:
    await answered(office, "one", "two")
    (parcel,) = await office.store.claim_parcels(["console"], most=10)
    await office.store.settle(parcel, Delivery(retry_in_ms=5_000, reason="offline"))
    assert await office.store.claim_parcels(["console"], most=10) == []
    assert await office.store.next_timer() == 5_000
    clock.advance(5_000)
    (again,) = await office.store.claim_parcels(["console"], most=10)
    assert (again.text, again.attempt) == ("one", 2)
    assert again.fence > parcel.fence
    event = json.loads(office.one("select data from events where kind = 'response_retried'"))
    assert event == {"response": parcel.id, "attempt": 1, "reason": "offline", "next_at": clock.now()}


@pytest.mark.parametrize(
    ("delivery", "status", "kind"),
    [
        (Delivery(dead=True, reason="no such chat"), "dead", "response_dead"),
        (Delivery(unsure=True, reason="cut off"), "unsure", "response_unsure"),
    ],
)
async def test_the_end_of_one_frees_the_next(office: Any, delivery: Delivery, status: str, kind: str) -> None:
    await answered(office, "one", "two")
    (parcel,) = await office.store.claim_parcels(["console"], most=10)
    await office.store.settle(parcel, delivery)
    assert office.row("select status, last_error, retry_count from responses where id = ?", parcel.id) == (
        status, delivery.reason, 1,
    )  # fmt: skip
    assert kind in office.kinds()
    assert [parcel.text for parcel in await office.store.claim_parcels(["console"], most=10)] == ["two"]


async def test_a_sending_is_settled_once(office: Any) -> None:
    await answered(office, "one")
    (parcel,) = await office.store.claim_parcels(["console"], most=10)
    assert await office.store.settle(parcel, Delivery(receipt="r")) is True
    before = office.everything()
    for late in (Delivery(receipt="again"), Delivery(retry_in_ms=0), Delivery(dead=True), Delivery(unsure=True)):
        assert await office.store.settle(parcel, late) is False
    assert office.everything() == before


async def test_a_stale_claim_settles_nothing(office: Any) -> None:
    await answered(office, "one")
    (old,) = await office.store.claim_parcels(["console"], most=10)
    await office.store.settle(old, Delivery(retry_in_ms=0))
    (new,) = await office.store.claim_parcels(["console"], most=10)
    before = office.everything()
    assert await office.store.settle(old, Delivery(receipt="late")) is False
    assert office.everything() == before
    assert await office.store.settle(new, Delivery(receipt="r")) is True


@pytest.mark.parametrize(
    "nonsense", [{}, {"receipt": "r", "dead": True}, {"retry_in_ms": 0, "unsure": True}, {"reason": "only"}]
)
def test_a_delivery_is_exactly_one_thing(nonsense: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        Delivery(**nonsense)


async def test_nobody_overtakes_those_that_were_held(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manydesks.store.deliver.SWEEP", 2)
    await answered(office, "one", "two", "three", "four", "five")
    for _ in range(3):
        await office.store.claim_parcels([], most=1, there=[])
    assert [status for status, _, _ in office.responses()] == ["held"] * 5
    await answered(office, "six")
    # two at a time go back to their places; until all of them have, nobody is sent
    assert [await office.store.claim_parcels(["console"], most=9) for _ in range(2)] == [[], []]
    sent = []
    while parcels := await office.store.claim_parcels(["console"], most=9):
        sent += [parcel.text for parcel in parcels]
        for parcel in parcels:
            await office.store.settle(parcel, Delivery(receipt="r"))
    assert sent == ["one", "two", "three", "four", "five", "six"]
