"""Order: inside a lane as it was accepted, whatever batches and failures do to it; between lanes side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess

MOVING = ("pending", "processing", "outgoing")


def quiet(reader: Reader) -> bool:
    return not any(reader.queue_status()[state] for state in MOVING)


def events(office: OfficeProcess, *kinds: str) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        return reader.events(0, 100_000, kinds=kinds)
    finally:
        reader.close()


def texts_of(office: OfficeProcess, ids: list[str]) -> list[list[tuple[str, str]]]:
    """(status, text) of what the agent itself said to each message."""
    reader = office.door.reader()
    try:
        messages = [reader.message(id) for id in ids]
    finally:
        reader.close()
    return [[(r["status"], r["text"]) for r in m["responses"] if r["operation"] == "message"] for m in messages]


def send_all(office: OfficeProcess, texts: list[str], *, to: str = "assistant") -> list[str]:
    return [office.door.ask("send", text=text, to=to)["messageId"] for text in texts]


@pytest.mark.slow
def test_two_hundred_messages_of_four_senders_are_answered_in_lane_order(office: OfficeProcess) -> None:
    failures: list[BaseException] = []

    def send(number: int) -> None:
        try:
            send_all(office, [f"!say {number}/{n}" for n in range(50)])
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    senders = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert failures == []
    office.until(quiet)

    accepted = [event["message"] for event in events(office, "message_enqueued")]
    assert len(set(accepted)) == 200
    assert [event["message"] for event in events(office, "message_completed")] == accepted
    assert [event["message"] for event in events(office, "response_delivered")] == accepted
    answers = texts_of(office, accepted)
    assert [len(answer) for answer in answers] == [1] * 200
    said = [answer[0][1] for answer in answers]
    for number in range(4):
        assert [text for text in said if text.startswith(f"{number}/")] == [f"{number}/{n}" for n in range(50)]


def test_one_run_takes_several_waiting_messages_and_answers_each(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(dispatch__batch=4)
    ids = send_all(office, [f"!say {n}" for n in range(6)])  # nobody is there yet: they wait
    office.start()
    office.until(quiet)
    assert texts_of(office, ids) == [[("acked", str(n))] for n in range(6)]
    received = events(office, "message_received")
    assert [(event["message"], event["data"]["batch"]) for event in received] == [
        *((id, 4) for id in ids[:4]),
        *((id, 2) for id in ids[4:]),
    ]
    assert len({event["run"] for event in received}) == 2
    # each is acknowledged on its own, when it is answered
    assert [event["message"] for event in events(office, "message_completed")] == ids


def test_a_failure_inside_a_batch_holds_those_behind_it_and_repeats_none(office: OfficeProcess) -> None:
    office.stop()
    texts = ["!say a", "!say b", "!fail_times 2\n!say c", "!say d", "!say e"]
    ids = send_all(office, texts)
    office.start()
    office.until(quiet)
    assert texts_of(office, ids) == [[("acked", letter)] for letter in "abcde"]
    assert [event["message"] for event in events(office, "message_completed")] == ids
    assert [event["message"] for event in events(office, "message_retried")] == [ids[2]] * 2
    returned = events(office, "message_returned")
    assert {event["message"] for event in returned} == {ids[3], ids[4]}
    assert events(office, "output_discarded") == []


def test_poison_inside_a_batch_dies_alone(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(retry__max_attempts=3)
    ids = send_all(office, ["!say a", "!crash", "!say b"])
    office.start()
    office.until(quiet)
    assert texts_of(office, ids) == [[("acked", "a")], [], [("acked", "b")]]
    assert [event["message"] for event in events(office, "message_dead")] == [ids[1]]
    assert [event["message"] for event in events(office, "message_completed")] == [ids[0], ids[2]]


def test_agents_work_side_by_side(office: OfficeProcess) -> None:
    office.door.ask("agent_add", id="ben")
    slow = office.door.ask("send", text="!hang", to="assistant")["messageId"]
    quick = office.ask("!say quick", to="ben")["messages"][0]
    assert quick["status"] == "completed"
    assert office.door.reader().message(slow)["status"] == "processing"


def test_one_agent_never_has_two_runs_at_once(office: OfficeProcess) -> None:
    send_all(office, [f"!sleep 0.01\n!say {n}" for n in range(12)])
    office.until(quiet)
    under_way = 0
    for event in events(office, "chain_step_start", "chain_step_done"):
        under_way += 1 if event["kind"] == "chain_step_start" else -1
        assert under_way in (0, 1)
    assert under_way == 0


def test_a_retry_waits_at_the_head_of_its_lane(office: OfficeProcess) -> None:
    first = office.door.ask("send", text="!fail_times 1\n!say first", to="assistant")["messageId"]
    second = office.door.ask("send", text="!say second", to="assistant")["messageId"]
    office.until(quiet)
    assert [event["message"] for event in events(office, "message_completed")] == [first, second]
