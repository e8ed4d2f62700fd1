"""Responses that somebody fetches, sends again, gives up."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.domain.errors import UnknownResponse, WrongState
from manydesks.domain.states import ResponseState
from manydesks.store.deliver import Delivery
from manydesks.store.outgoing import TROUBLE
from manydesks.store.reader import Reader

R = ResponseState


async def answered(office: Any, *texts: str, **more: Any) -> str:
    message = await office.sent(**{"channel": "api", **more})
    _, desk = await office.begin()
    for text in texts or ("hi",):
        desk.say(text)
    await desk.ack(message).take()
    return str(message)


async def texts(office: Any, **more: Any) -> list[str]:
    return [row["text"] for row in await office.store.fetch_responses("api", **more)]


async def test_what_waits_comes_again_until_it_is_acknowledged(office: Any) -> None:
    await answered(office, "one", "two")
    await answered(office, "elsewhere", channel="console")
    assert await texts(office) == ["one", "two"]
    assert await texts(office) == ["one", "two"]
    assert await texts(office, limit=1) == ["one"]
    assert await texts(office, after=1) == ["two"]
    assert await office.store.acknowledge(2) is True
    assert await office.store.acknowledge(2) is False
    assert await texts(office) == ["one"]
    assert office.kinds().count("response_delivered") == 1
    assert await office.store.acknowledge(1) is True
    assert [status for status, _, _ in office.responses()] == ["acked", "acked", "pending"]


async def test_accounts(office: Any) -> None:
    await answered(office, "mine", instance="a")
    await answered(office, "yours", instance="b")
    assert await texts(office) == ["mine", "yours"]
    assert await texts(office, instance="b") == ["yours"]


async def test_a_client_of_its_own_fetches_what_waits_for_a_channel_that_is_not_there(office: Any) -> None:
    await answered(office, "one", channel="pigeon")
    await office.store.claim_parcels([], most=1, there=["console"])
    assert [status for status, _, _ in office.responses()] == ["held"]
    (row,) = await office.store.fetch_responses("pigeon")
    assert await office.store.acknowledge(row["id"]) is True
    assert [status for status, _, _ in office.responses()] == ["acked"]


async def test_what_a_client_has_seen_is_not_said_again(office: Any) -> None:
    message = await office.sent(channel="api")
    _, desk = await office.begin()
    await desk.say("on my way").take()
    assert await texts(office) == ["on my way"]
    await desk.fail(message).take()
    # another attempt would say it twice
    assert office.status(message) == "dead"
    assert office.one("select last_error from messages").startswith("interrupted_after_output")


async def test_unfetched_it_is_taken_back(office: Any) -> None:
    message = await office.sent(channel="api")
    _, desk = await office.begin()
    await desk.say("on my way").fail(message).take()
    assert office.status(message) == "pending"
    assert [status for status, _, _ in office.responses()] == ["withdrawn"]
    with pytest.raises(WrongState, match="The response 1 is withdrawn"):
        await office.store.acknowledge(1)


async def test_what_is_being_sent_is_not_acknowledged_nor_dropped(office: Any) -> None:
    await answered(office, "hi", channel="console")
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    before = office.everything()
    with pytest.raises(WrongState, match="is sending"):
        await office.store.acknowledge(parcel.id)
    with pytest.raises(WrongState, match="is sending"):
        await office.store.drop_response(parcel.id)
    with pytest.raises(WrongState, match="only a dead, an unsure or an expired one can be sent again"):
        await office.store.resend(parcel.id)
    assert office.everything() == before


@pytest.mark.parametrize("verdict", [Delivery(dead=True, reason="gone"), Delivery(unsure=True, reason="who knows")])
async def test_sent_again_it_stands_at_the_end_with_new_attempts(office: Any, verdict: Delivery) -> None:
    await answered(office, "one", "two", channel="console")
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    await office.store.settle(parcel, verdict)
    await office.store.resend(parcel.id)
    sent = []
    while parcels := await office.store.claim_parcels(["console"], most=1):
        sent.append((parcels[0].text, parcels[0].attempt))
        await office.store.settle(parcels[0], Delivery(receipt="r"))
    assert sent == [("two", 1), ("one", 1)]
    assert office.one("select data from events where kind = 'response_released'").count("owner") == 1


async def test_dropped_it_is_withdrawn(office: Any) -> None:
    await answered(office, "one", "two", channel="console")
    await office.store.drop_response(1)
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    assert parcel.text == "two"
    with pytest.raises(WrongState, match="The response 1 is withdrawn"):
        await office.store.drop_response(1)


@pytest.mark.parametrize("verb", ["acknowledge", "resend", "drop_response"])
async def test_unknown_numbers(office: Any, verb: str) -> None:
    with pytest.raises(UnknownResponse, match="There is no response '77'"):
        await getattr(office.store, verb)(77)


async def test_lists(office: Any, reader: Reader) -> None:
    await answered(office, "a", "b", "c", "d", channel="console")
    await answered(office, "e", channel="pigeon")
    for verdict in (Delivery(dead=True, reason="gone"), Delivery(unsure=True, reason="?"), Delivery(receipt="r")):
        (parcel,) = await office.store.claim_parcels(["console"], most=1, there=["console"])
        await office.store.settle(parcel, verdict)

    def listed(*states: ResponseState, **more: Any) -> list[tuple[str, str]]:
        return [(row["text"], row["status"]) for row in reader.responses(states, **more)]

    assert listed(*TROUBLE) == [("a", "dead"), ("b", "unsure"), ("e", "held")]
    assert listed(R.DEAD, R.UNSURE, limit=1) == [("a", "dead")]
    assert listed(*TROUBLE, after=1) == [("b", "unsure"), ("e", "held")]
    assert listed(*TROUBLE, channel="pigeon") == [("e", "held")]
    assert listed(R.PENDING, R.ACKED) == [("c", "acked"), ("d", "pending")]
    found = reader.response(1)
    assert found is not None
    assert (found["text"], found["reason"], found["attempts"]) == ("a", "gone", 1)
    assert reader.response(77) is None


async def test_each_list_is_found_by_an_index(office: Any, reader: Reader) -> None:
    from manydesks.store.outgoing import FOUND_BY, listing

    for state in FOUND_BY:
        sql, values = listing([state], None, 0, 10)
        plan = " ".join(row[3] for row in office.rows(f"explain query plan {sql}", *values))
        assert "SCAN responses USING" in plan or "SEARCH responses USING" in plan, (state, plan)
