"""What surfaces see: read-only, short, and true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.domain.attachment import Attachment
from manydesks.domain.errors import BadInput, StoreError, StoreTooNew
from manydesks.store.database import open_reader, open_writer
from manydesks.store.deliver import Delivery
from manydesks.store.reader import Reader
from manydesks.store.store import Store


async def test_an_empty_office(office: Any, reader: Any) -> None:
    assert reader.queue_status() == {
        "pending": 0, "processing": 0, "held": 0, "completed": 0, "cancelled": 0, "dead": 0, "incoming": 0,
        "outgoing": 0,
    }  # fmt: skip
    assert reader.dead() == []
    assert reader.message("api_nothere") is None
    assert reader.trace("trace_nothere") is None
    assert reader.trace_ended("trace_nothere")
    assert reader.archived() == 0


async def test_counts_by_state_and_agent(office: Any, reader: Any) -> None:
    done, _waiting = await office.sent(to="ada"), await office.sent(to="ada", platform_id="elsewhere")
    await office.sent(to="bob")
    (ada,) = await office.claim(most=1)
    status = reader.queue_status()
    assert (status["pending"], status["processing"], status["incoming"]) == (2, 1, 2)
    assert {row["id"]: (row["pending"], row["processing"]) for row in reader.agents()} == {
        "ada": (1, 1), "bob": (1, 0), "cyd": (0, 0),
    }  # fmt: skip
    await office.desk(ada).say("one").say("two").ack(done).take()
    status = reader.queue_status()
    assert (status["completed"], status["outgoing"]) == (1, 2)


async def test_a_message_with_its_runs_tools_and_responses(office: Any, reader: Any, clock: Any) -> None:
    message = await office.sent("hello")
    clock.advance(250)
    claimed, desk = await office.begin()
    clock.advance(1_000)
    desk.step("tool_call", tool="look", id="1", arguments={}).step(
        "tool_result", tool="look", id="1", ok=True, duration_ms=7
    )
    await desk.step("usage", input=3, output=4, cost_usd=0.5).say("hi").ack(message).take()
    found = reader.message(message)
    assert (found["status"], found["text"], found["queueMs"], found["attempts"]) == ("completed", "hello", 250, 1)
    assert found["runs"] == [
        {
            "id": claimed.run, "attempt": 1, "outcome": "completed", "reason": None,
            "startedAt": clock.now() - 1_000, "durationMs": 1_000, "inputTokens": 3, "outputTokens": 4, "costUsd": 0.5,
            "message": message, "messages": 1,
            "tools": [{"tool": "look", "ok": True, "durationMs": 7}],
        }
    ]  # fmt: skip
    (response,) = found["responses"]
    assert (response["status"], response["text"], response["ackedAt"]) == ("pending", "hi", None)


async def test_a_trace_by_its_id_or_that_of_any_of_its_messages(office: Any, reader: Any) -> None:
    accepted = await office.send("hello")
    message = accepted.message_id
    _, desk = await office.begin()
    await desk.say("[@bob: help]").ack(message).take()
    handed = office.one("select message_id from messages where agent = 'bob'")
    for id in (accepted.trace, message, handed):
        found = reader.trace(id)
        assert found["traceId"] == accepted.trace
        assert [row["messageId"] for row in found["messages"]] == [message, handed]
        assert [row["parent"] for row in found["messages"]] == [None, message]


async def test_an_arrival_that_led_to_no_message_has_a_trace(office: Any, reader: Any) -> None:
    accepted = await office.send("@bob", key="api_default")
    assert reader.trace("api_default") == {"traceId": accepted.trace, "messages": []}
    assert reader.trace_ended(accepted.trace)


async def test_a_trace_has_ended_when_nothing_of_it_moves(office: Any, reader: Any) -> None:
    accepted = await office.send("hello")
    trace = accepted.trace
    assert not reader.trace_ended(trace)
    _, desk = await office.begin()
    assert not reader.trace_ended(trace)
    await desk.say("hi").ack(accepted.message_id).take()
    assert not reader.trace_ended(trace)
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    assert not reader.trace_ended(trace)
    await office.store.settle(parcel, Delivery(receipt="r"))
    assert reader.trace_ended(trace)


async def test_dead_letters_oldest_first_by_agent_and_capped(office: Any, reader: Any) -> None:
    ids = []
    for agent in ("bob", "ada", "bob"):
        message = await office.sent(to=agent)
        _, desk = await office.begin()
        await desk.fail(message, "permanent", "bad key").take()
        ids.append(message)
    assert [letter["messageId"] for letter in reader.dead()] == ids
    assert [letter["messageId"] for letter in reader.dead("bob")] == [ids[0], ids[2]]
    assert [letter["messageId"] for letter in reader.dead(limit=1)] == ids[:1]
    assert (reader.dead()[0]["reason"], reader.dead()[0]["attempts"]) == ("bad key", 1)


async def test_events_above_a_seq(office: Any, reader: Any) -> None:
    accepted = await office.send("hello")
    await office.send("other")
    everything = reader.events(0, 1000)
    assert [event["seq"] for event in everything] == list(range(1, reader.head() + 1))
    assert reader.events(2, 2) == everything[2:4]
    assert reader.events(reader.head(), 10) == []
    assert [event["kind"] for event in reader.events(0, 100, kinds=["agent_added"])] == ["agent_added"] * 3
    assert {event["trace"] for event in reader.events(0, 100, trace=accepted.trace)} == {accepted.trace}
    both = reader.events(0, 100, kinds=["message_enqueued", "agent_added"], trace=accepted.trace)
    assert [event["kind"] for event in both] == ["message_enqueued"]


async def test_the_archived_mark_never_moves_back_nor_beyond_the_head(office: Any, reader: Any) -> None:
    head = office.head()
    assert await office.store.mark_archived(2) == 2
    assert await office.store.mark_archived(1) == 2
    assert await office.store.mark_archived(head + 100) == head
    assert reader.archived() == head


async def test_a_reader_cannot_write(office: Any) -> None:
    db = open_reader(office.path)
    with pytest.raises(apsw.ReadOnlyError):
        db.execute("delete from agents")
    db.close()


async def test_a_reader_sees_commits_and_holds_no_snapshot(office: Any, reader: Any) -> None:
    before = reader.head()
    await office.sent()
    assert reader.head() > before


def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store"):
        Reader(tmp_path / "nothing.db", sockets=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_being_made_is_no_riddle(tmp_path: Path) -> None:
    """The file is there before its tables are: whoever looks in between gets a sentence, not a traceback."""
    open_writer(tmp_path / "office.db", "crash").close()
    with pytest.raises(StoreError, match="not ready"):
        Reader(tmp_path / "office.db", sockets=tmp_path)


def test_a_newer_store_is_not_read(path: Path, tmp_path: Path) -> None:
    Store(path, durability="crash").close()
    db = apsw.Connection(str(path))
    db.execute("insert into schema_migrations values ('m9999_future', 1)")
    db.close()
    with pytest.raises(StoreTooNew, match="m9999_future"):
        Reader(path, sockets=tmp_path)


@pytest.mark.parametrize("name", ["a?b.db", "a#b.db", "50%.db", "ä b.db"])
def test_any_path_can_be_read(tmp_path: Path, name: str) -> None:
    Store(tmp_path / name, durability="crash").close()
    reader = Reader(tmp_path / name, sockets=tmp_path)
    assert reader.head() == 0
    reader.close()


async def test_counts_of_one_agent(office: Any, reader: Any) -> None:
    await office.sent(to="ada")
    await office.sent(to="bob")
    assert reader.queue_status("ada") == {
        "pending": 1, "processing": 0, "held": 0, "completed": 0, "cancelled": 0, "dead": 0,
    }  # fmt: skip
    assert not any(reader.queue_status("nobody").values())


async def test_a_message_that_was_answered_with_another_points_there(office: Any, reader: Any) -> None:
    first, second = await office.sent("one"), await office.sent("two")
    claimed, desk = await office.begin()
    assert len(claimed.messages) == 2
    await desk.step("usage", input=3, output=4).say("both", to=first).ack(first).ack(second).take()
    one, two = reader.message(first), reader.message(second)
    assert (one["answeredWith"], two["responses"]) == (None, [])
    assert two["answeredWith"]["messageId"] == first
    assert two["answeredWith"]["traceId"] == one["traceId"]
    assert two["answeredWith"]["response"] == one["responses"][0]
    (run,) = two["runs"]
    assert (run["message"], run["messages"]) == (first, 2)


async def test_what_came_with_a_message_and_what_may_be_commanded(office: Any, reader: Any) -> None:
    file = Attachment(name="a", bytes=1, sha256="ab" * 32, path="files/x/a")
    message = await office.sent("/compact", files=(file,), commands=True)
    assert reader.message(message)["files"] == [file.as_json()]
    (work,) = (await office.begin())[0].messages
    assert (work.files, work.content) == ((file,), {"isCommand": True})


@pytest.mark.parametrize(("text", "commands"), [("/compact", False), ("please /compact", True), ("/etc/hosts", True)])
async def test_what_is_no_command(office: Any, text: str, commands: bool) -> None:
    await office.sent(text, commands=commands)
    (work,) = (await office.begin())[0].messages
    assert work.content is None


@pytest.mark.parametrize(("names", "why"), [(["a", "a"], "called 'a'"), (map(str, range(11)), "at most 10")])
async def test_files_that_are_too_many_or_look_the_same(office: Any, names: Any, why: str) -> None:
    files = tuple(Attachment(name=name, bytes=1, sha256="ab" * 32, path="files/x/a") for name in names)
    with pytest.raises(BadInput, match=why):
        await office.sent("hello", files=files)


async def test_a_trace_is_of_one_moment(office: Any, reader: Any) -> None:
    """What is committed between two of its queries is not half in it."""
    message = await office.sent("hello")
    _, desk = await office.begin()
    await desk.say("hi").take()
    seen, whole = [], reader._message

    def between(row: Any) -> Any:
        writer = open_writer(reader.path, durability="crash")
        writer.execute("update responses set last_error = 'later'")
        writer.close()
        seen.append(row)
        return whole(row)

    reader._message = between
    (found,) = reader.trace(message)["messages"]
    assert seen
    assert [response["lastError"] for response in found["responses"]] == [None]
    (found,) = reader.trace(message)["messages"]
    assert [response["lastError"] for response in found["responses"]] == ["later"]
