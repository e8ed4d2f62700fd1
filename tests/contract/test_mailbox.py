"""One suite for every mailbox: what the host and the runner rely on, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Ack, Control, Delivery, Inbound, Outbound, Step
from manydesks.mailbox.base import DeskSide, HostSide
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.testing.clock import ManualClock
from manydesks.testing.mailbox import MemoryMailbox


@dataclass
class Pair:
    host: HostSide
    desk: DeskSide
    clock: ManualClock


def in_files(folder: Path) -> Pair:
    clock = ManualClock()
    host = HostMailbox(folder / "s", session="s1", agent="coder", clock=clock)
    return Pair(host, DeskMailbox(folder / "s" / "in", folder / "s" / "out", clock=clock), clock)


def in_memory(folder: Path) -> Pair:
    clock = ManualClock()
    box = MemoryMailbox(clock=clock)
    return Pair(box.host, box.desk, clock)


@pytest.fixture(params=[in_files, in_memory], ids=["files", "memory"])
def unopened(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    make: Callable[[Path], Pair] = request.param
    pair = make(tmp_path)
    pair.host.prepare()
    return pair


@pytest.fixture
def pair(unopened: Pair) -> Pair:
    unopened.desk.open()
    return unopened


def message(number: int, *, fence: int = 1, **changes: Any) -> Inbound:
    values: dict[str, Any] = {
        "id": f"api_{number:08d}",
        "run": f"run_{fence}",
        "fence": fence,
        "kind": "chat",
        "at": 1,
        "tries": 1,
        "content": {"sender": "Owner", "text": f"text {number}"},
    }
    return Inbound(**values | changes)


def ack(number: int, *, fence: int = 1, status: Any = "completed", **changes: Any) -> Ack:
    return Ack(message=f"api_{number:08d}", run=f"run_{fence}", fence=fence, status=status, at=2, **changes)


def failed(number: int, *, fence: int = 1) -> Ack:
    return ack(number, fence=fence, status="failed", failure="transient", reason="no luck")


def answer(number: int, *, fence: int = 1, text: str = "yes") -> Outbound:
    return Outbound(
        id=f"out_{number:08d}",
        run=f"run_{fence}",
        fence=fence,
        in_reply_to=f"api_{number:08d}",
        at=2,
        kind="chat",
        content={"text": text, "files": []},
    )


def step(text: str, *, run: str = "run_1") -> Step:
    return Step(run=run, at=2, type="text", data={"text": text})


def waiting_ids(pair: Pair) -> list[str]:
    return [row.id for row in pair.desk.waiting()]


# --- the way in -------------------------------------------------------------------------------------------------------


def test_a_message_arrives_as_it_was_put(pair: Pair) -> None:
    content = {"sender": "Ö 🦉", "text": "a\x00b\n", "metadata": {"n": [1, 2.5, None, True]}}
    row = message(1, kind="task", tries=3, content=content, trigger=False, reply_to="api_0", not_before=5)
    pair.host.put([row])
    [found] = pair.desk.waiting()
    assert found.seq == 2
    assert found == Inbound(
        id=row.id,
        run=row.run,
        fence=row.fence,
        kind="task",
        at=1,
        tries=3,
        content=content,
        trigger=False,
        reply_to="api_0",
        not_before=5,
        seq=2,
    )


def test_messages_come_in_the_order_in_which_they_were_first_put_with_even_numbers(pair: Pair) -> None:
    pair.host.put([message(2), message(1)])
    pair.host.put([message(3), message(2)])
    assert [(row.id[-1], row.seq) for row in pair.desk.waiting()] == [("2", 2), ("1", 4), ("3", 6)]


def test_a_newer_fence_replaces_a_row_and_keeps_its_number(pair: Pair) -> None:
    pair.host.put([message(1), message(2)])
    pair.host.put([message(1, fence=5, tries=2)])
    assert [(row.fence, row.tries, row.seq) for row in pair.desk.waiting()] == [(5, 2, 2), (1, 1, 4)]


def test_an_older_fence_never_replaces_a_newer(pair: Pair) -> None:
    pair.host.put([message(1, fence=5)])
    pair.host.put([message(1, fence=4, content={"text": "old"})])
    [row] = pair.desk.waiting()
    assert (row.fence, row.content["text"]) == (5, "text 1")


def test_put_is_all_or_nothing(pair: Pair) -> None:
    with pytest.raises(BadInput):
        pair.host.put([message(1), message(2, content={"text": "\ud800"})])
    assert waiting_ids(pair) == []


def test_a_message_waits_for_its_moment(pair: Pair) -> None:
    pair.host.put([message(1, not_before=pair.clock.now() + 1), message(2)])
    assert waiting_ids(pair) == ["api_00000002"]
    pair.clock.advance(1)
    assert waiting_ids(pair) == ["api_00000001", "api_00000002"]


def test_nothing_waits_in_an_empty_mailbox(pair: Pair) -> None:
    assert pair.desk.waiting() == []


# --- acks and fences --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_an_acked_message_does_not_wait_any_more(pair: Pair, status: str) -> None:
    pair.host.put([message(1), message(2)])
    assert len(waiting_ids(pair)) == 2
    pair.desk.write(acks=[ack(1, status=status)])
    assert waiting_ids(pair) == ["api_00000002"]


def test_an_ack_counts_only_under_its_own_fence(pair: Pair) -> None:
    pair.host.put([message(1)])
    pair.desk.write(acks=[ack(1)])
    pair.host.put([message(1, fence=2)])
    assert waiting_ids(pair) == ["api_00000001"]


def test_the_first_failed_ack_ends_its_fence_and_no_other(pair: Pair) -> None:
    pair.host.put([message(1), message(2), message(3, fence=2)])
    assert len(waiting_ids(pair)) == 3
    pair.desk.write(acks=[failed(1)])
    assert waiting_ids(pair) == ["api_00000003"]
    pair.host.put([message(2, fence=3)])
    assert waiting_ids(pair) == ["api_00000002", "api_00000003"]


def test_withdrawn_messages_are_not_seen_until_they_come_again(pair: Pair) -> None:
    pair.host.put([message(1), message(2, fence=2)])
    pair.host.withdraw(1)
    assert waiting_ids(pair) == ["api_00000002"]
    pair.host.put([message(1, fence=3)])
    assert waiting_ids(pair) == ["api_00000001", "api_00000002"]


def test_withdrawing_an_old_fence_leaves_a_row_that_has_a_newer_one(pair: Pair) -> None:
    pair.host.put([message(1)])
    pair.host.put([message(1, fence=2)])
    pair.host.withdraw(1)
    assert waiting_ids(pair) == ["api_00000001"]


def test_a_message_is_acked_once_per_fence_and_a_second_ack_undoes_its_whole_write(pair: Pair) -> None:
    pair.desk.write(acks=[ack(1)])
    with pytest.raises(BadInput):
        pair.desk.write(messages=[answer(1)], acks=[ack(1)], state={"continuation": "x"})
    collected = pair.host.collect(None, 0)
    assert collected is not None
    assert (len(collected.acks), collected.messages, dict(collected.state)) == (1, (), {})


def test_what_was_collected_stays_acked(pair: Pair) -> None:
    pair.host.put([message(1), message(2)])
    pair.desk.write(acks=[ack(1)])
    pair.host.collect(None, 0)
    pair.host.put([message(3)])
    assert waiting_ids(pair) == ["api_00000002", "api_00000003"]


# --- the way out ------------------------------------------------------------------------------------------------------


def test_there_is_nothing_to_collect_before_the_desk_has_opened(unopened: Pair) -> None:
    assert unopened.host.collect(None, 0) is None
    unopened.desk.open()
    collected = unopened.host.collect(None, 0)
    assert collected is not None
    assert (collected.messages, collected.acks, collected.steps, collected.last_seq) == ((), (), (), 0)


def test_rows_come_out_as_they_were_written(pair: Pair) -> None:
    out = Outbound(
        id="out_1",
        run="run_1",
        fence=7,
        in_reply_to=None,
        at=3,
        kind="system",
        content={"action": "x", "payload": {"ü": [1]}},
        deliver_after=9,
        destination="room:dev",
    )
    bad = Ack(
        message="api_1", run="run_1", fence=7, status="failed", at=4, failure="refused", reason="ö", retry_after=1.5
    )
    written = pair.desk.write(messages=[out], acks=[bad], steps=[step("s")], state={"continuation": "c1"})
    collected = pair.host.collect(None, 0)
    assert collected is not None
    [found] = collected.messages
    assert (found.content, found.deliver_after, found.destination, found.in_reply_to) == (
        out.content,
        9,
        "room:dev",
        None,
    )
    [found_ack] = collected.acks
    assert (found_ack.failure, found_ack.reason, found_ack.retry_after, found_ack.fence) == ("refused", "ö", 1.5, 7)
    assert collected.steps[0].data == {"text": "s"}
    assert collected.state == {"continuation": "c1"}
    assert (found.seq,) == written.messages
    assert (found_ack.seq,) == written.acks
    assert (collected.steps[0].seq,) == written.steps


def test_one_odd_counter_numbers_all_three_and_acks_come_last(pair: Pair) -> None:
    first = pair.desk.write(messages=[answer(1), answer(2)], acks=[ack(1), ack(2)], steps=[step("a")])
    second = pair.desk.write(steps=[step("b")])
    numbers = [*first.steps, *first.messages, *first.acks, *second.steps]
    assert numbers == sorted(set(numbers))
    assert all(number % 2 == 1 for number in numbers)


def test_a_cursor_gets_what_is_newer_and_nothing_twice(pair: Pair) -> None:
    pair.desk.write(steps=[step("a")])
    one = pair.host.collect(None, 0)
    assert one is not None
    pair.desk.write(messages=[answer(1)], acks=[ack(1)])
    two = pair.host.collect(one.epoch, one.last_seq)
    assert two is not None
    assert (two.steps, len(two.messages), len(two.acks)) == ((), 1, 1)
    three = pair.host.collect(two.epoch, two.last_seq)
    assert three is not None
    assert (three.messages, three.acks, three.last_seq, three.more) == ((), (), two.last_seq, False)


def test_another_epoch_is_read_from_its_start(pair: Pair) -> None:
    pair.desk.write(steps=[step("a")])
    collected = pair.host.collect("00" * 16, 999)
    assert collected is not None
    assert [row.data["text"] for row in collected.steps] == ["a"]


def test_a_file_that_counts_from_an_older_number_is_not_ignored(pair: Pair) -> None:
    pair.desk.write(steps=[step("a")])
    now = pair.host.collect(None, 0)
    assert now is not None
    restored = pair.host.collect(now.epoch, now.last_seq + 1000)
    assert restored is not None
    assert len(restored.steps) == 1


def test_the_epoch_stays_when_the_desk_opens_again(pair: Pair) -> None:
    before = pair.host.collect(None, 0)
    pair.desk.open()
    after = pair.host.collect(None, 0)
    assert before is not None
    assert after is not None
    assert before.epoch == after.epoch


def test_pages_end_between_writes_and_lose_nothing(pair: Pair) -> None:
    for number in range(7):
        pair.desk.write(steps=[step(str(number))], messages=[answer(number)], acks=[ack(number)])
    epoch, cursor, seen, pages = None, 0, [], 0
    while True:
        page = pair.host.collect(epoch, cursor, limit=7)
        assert page is not None
        assert len(page.steps) == len(page.messages) == len(page.acks)
        seen += [row.id for row in page.messages]
        epoch, cursor, pages = page.epoch, page.last_seq, pages + 1
        if not page.more:
            break
    assert seen == [f"out_{number:08d}" for number in range(7)]
    assert pages == 4


def test_a_write_larger_than_a_page_is_not_stuck(pair: Pair) -> None:
    pair.desk.write(steps=[step(str(number)) for number in range(9)])
    epoch, cursor, seen = None, 0, 0
    for _ in range(9):
        page = pair.host.collect(epoch, cursor, limit=4)
        assert page is not None
        seen += len(page.steps)
        epoch, cursor = page.epoch, page.last_seq
        if not page.more:
            break
    assert seen == 9


def test_state_is_kept_changed_and_removed(pair: Pair) -> None:
    pair.desk.write(state={"continuation": "a", "other": "b"})
    pair.desk.write(state={"continuation": "c", "other": None})
    collected = pair.host.collect(None, 0)
    assert collected is not None
    assert collected.state == {"continuation": "c"}


@pytest.mark.parametrize(
    "rows",
    [
        {"messages": [Outbound(id="../x", run="r", fence=1, in_reply_to=None, at=1, kind="chat", content={})]},
        {"messages": [Outbound(id="o1", run="r", fence=-1, in_reply_to=None, at=1, kind="chat", content={})]},
        {"messages": [Outbound(id="o1", run="r", fence=1, in_reply_to=None, at=1, kind="chatty", content={})]},
        {
            "messages": [
                Outbound(id="o1", run="r", fence=1, in_reply_to=None, at=1, kind="chat", content={"t": "\ud800"})
            ]
        },
        {"messages": [Outbound(id="o1", run="r", fence=1, in_reply_to=None, at=1, kind="chat", content={"n": 1e400})]},
        {
            "messages": [
                Outbound(id="o1", run="r", fence=1, in_reply_to=None, at=1, kind="chat", content={"t": "x" * (1 << 20)})
            ]
        },
        {"acks": [Ack(message="m", run="r", fence=1, status="failed", at=1)]},
        {"acks": [Ack(message="m", run="r", fence=1, status="completed", at=1, failure="transient")]},
        {"acks": [Ack(message="m", run="r", fence=1, status="failed", at=1, failure="transient", retry_after=-1)]},
        {"steps": [Step(run="r", at=1, type="thought", data={})]},
        {"state": {"Not A Key": "x"}},
    ],
)
def test_the_desk_refuses_what_the_host_would_refuse(pair: Pair, rows: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        pair.desk.write(**rows)
    collected = pair.host.collect(None, 0)
    assert collected is not None
    assert (collected.messages, collected.acks, collected.steps, dict(collected.state)) == ((), (), (), {})


def test_threads_of_one_desk_write_without_losing_a_number(pair: Pair) -> None:
    numbers: list[int] = []

    def work(thread: int) -> None:
        for number in range(10):
            numbers.extend(pair.desk.write(steps=[step(f"{thread}.{number}")]).steps)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    seen: list[str] = []
    epoch, cursor = None, 0
    while any(thread.is_alive() for thread in threads) or len(seen) < 40:
        page = pair.host.collect(epoch, cursor)
        assert page is not None
        epoch, cursor = page.epoch, page.last_seq
        seen += [row.data["text"] for row in page.steps]
        assert len(seen) <= 40
    assert len(set(numbers)) == len(set(seen)) == 40


# --- words ------------------------------------------------------------------------------------------------------------


def test_controls_come_in_order_after_a_number(pair: Pair) -> None:
    assert pair.desk.controls(0) == []
    pair.host.control("reload", {})
    pair.host.control("stop", {"now": True})
    assert pair.desk.controls(0) == [
        Control(seq=1, verb="reload", data={}),
        Control(seq=2, verb="stop", data={"now": True}),
    ]
    assert [word.verb for word in pair.desk.controls(1)] == ["stop"]


def test_one_look_finds_words_and_work(pair: Pair) -> None:
    assert pair.desk.look(0) == ([], [])
    pair.host.control("reload", {})
    pair.host.put([message(1), message(2)])
    pair.desk.write(acks=[ack(1)])
    assert pair.desk.look(0) == (pair.desk.controls(0), pair.desk.waiting())
    words, rows = pair.desk.look(0)
    assert ([word.verb for word in words], [row.id for row in rows]) == (["reload"], ["api_00000002"])
    assert pair.desk.look(1)[0] == []


def test_a_number_leads_to_its_message(pair: Pair) -> None:
    pair.host.put([message(1), message(2)])
    (written,) = pair.desk.write(messages=[answer(1)]).messages
    assert [pair.desk.find(seq) for seq in (2, 4, written)] == ["api_00000001", "api_00000002", "out_00000001"]
    (number,) = pair.desk.write(steps=[step("hm")]).steps
    assert [pair.desk.find(seq) for seq in (6, number, 0, -1, 2**70)] == [None] * 5


def test_a_delivery_is_known_to_the_desk_and_the_last_word_counts(pair: Pair) -> None:
    assert pair.desk.delivery("out_1") is None
    pair.host.delivered("out_1", None, "unsure", 4)
    pair.host.delivered("out_1", "tg:77", "acked", 5)
    assert pair.desk.delivery("out_1") == Delivery(out_id="out_1", receipt="tg:77", status="acked", at=5)


def test_the_heartbeat_is_seen_by_the_host(pair: Pair) -> None:
    assert pair.host.last_heartbeat() is None
    pair.desk.heartbeat()
    pair.desk.heartbeat()
    assert isinstance(pair.host.last_heartbeat(), int)
