"""Bad calls: one clear sentence that says what is allowed, and nothing is changed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, StoreCorrupt, StoreReadOnly, StoreTooNew, UnknownJob, WrongState
from manydesks.queue import AsyncQueue, Message, Processor, Queue
from manydesks.store.database import open_writer
from manydesks.store.migrations import OFFICE
from manydesks.testing.clock import ManualClock

Dump = Callable[[], dict[str, list[tuple[Any, ...]]]]

circular: list[Any] = []
circular.append(circular)
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]

NUMBERS = [-1, -0.001, math.nan, math.inf, -math.inf, True, False, None, "1", [], 10**12, 1e300, 10**400]


@pytest.fixture
def unchanged(q: Queue, dump: Dump) -> Any:
    """A queue with something of everything, and a check that a call was refused and changed none of it."""
    q.send_batch(["one", "two", "three"])
    q.send("laned", lane="a", key="k")
    q.send("delayed", delay=60)
    first, second = q.receive_batch(2)
    q.fail(first, "no", permanent=True)
    q.complete(second)
    before = dump()

    def check(call: Callable[[], Any], error: type[Exception] = BadInput) -> str:
        with pytest.raises(error) as raised:
            call()
        assert dump() == before
        sentence = str(raised.value)
        assert re.match(r"[A-Z`a-z].*\.$", sentence, re.DOTALL), sentence
        assert len(sentence) < 300
        return sentence

    return check


@pytest.mark.parametrize("delay", NUMBERS, ids=lambda value: repr(value)[:9])
def test_bad_seconds(q: Queue, unchanged: Any, delay: Any) -> None:
    assert "A delay" in unchanged(lambda: q.send("x", delay=delay))
    unchanged(lambda: q.send_batch(["x"], delay=delay))
    message = Message(3, "three", 1, 1, None)
    assert "A lease" in unchanged(lambda: q.extend(message, delay))
    if delay is not None:
        assert "retry_in" in unchanged(lambda: q.fail(message, "why", retry_in=delay))
    assert "older_than" in unchanged(lambda: q.prune(delay))


@pytest.mark.parametrize("priority", [1.5, "1", None, True, False, 2**31 + 1, -(2**31) - 1, 10**30, math.nan])
def test_bad_priorities(q: Queue, unchanged: Any, priority: Any) -> None:
    assert "A priority must be a whole number" in unchanged(lambda: q.send("x", priority=priority))
    unchanged(lambda: q.send_batch([], priority=priority))


@pytest.mark.parametrize(
    "body",
    [object(), {1, 2}, b"bytes", {"x": object()}, {(1, 2): 3}, math.nan, [math.inf], circular, deep, 1j, len],
    ids=lambda value: type(value).__name__,
)
def test_bodies_that_json_cannot_carry(q: Queue, unchanged: Any, body: Any) -> None:
    assert "JSON can carry" in unchanged(lambda: q.send(body))
    unchanged(lambda: q.send_batch(["fine", body]))


def test_a_body_has_a_cap_in_bytes(q: Queue, unchanged: Any) -> None:
    q.cancel(q.send("x" * 998))  # two quotes
    with pytest.raises(BadInput, match="1000 bytes as JSON; this one has 1001"):
        q.send("x" * 999)
    with pytest.raises(BadInput, match="has 1002"):
        q.send("ü" * 500)
    with pytest.raises(BadInput, match="1000 bytes"):
        q.send_batch(["small", "\ud800" * 200])
    assert q.stats()["ready"] == 2


@pytest.mark.parametrize("bodies", [None, 5, "text", b"bytes", {"a": 1}])
def test_a_batch_is_a_list(q: Queue, unchanged: Any, bodies: Any) -> None:
    assert "list of bodies" in unchanged(lambda: q.send_batch(bodies))


def test_a_batch_that_breaks_off_sends_nothing(q: Queue, unchanged: Any) -> None:
    def broken() -> Any:
        yield "one"
        raise BadInput("The source broke off.")

    unchanged(lambda: q.send_batch(broken()))


def test_a_batch_has_a_limit(q: Queue, unchanged: Any) -> None:
    assert "100000" in unchanged(lambda: q.send_batch(range(100_001)))


@pytest.mark.parametrize("word", ["", "x" * 201, "a\nb", "\0", "\ud800", 5, b"a", ["a"], True])
def test_bad_keys_and_lanes(q: Queue, unchanged: Any, word: Any) -> None:
    assert "A key must be text" in unchanged(lambda: q.send("x", key=word))
    assert "A lane must be text" in unchanged(lambda: q.send("x", lane=word))
    unchanged(lambda: q.send_batch(["x"], lane=word))


@pytest.mark.parametrize("most", [0, -1, 10_001, 1.0, True, None, "5", 10**30])
def test_bad_batch_sizes(q: Queue, unchanged: Any, most: Any) -> None:
    unchanged(lambda: q.receive_batch(most))
    unchanged(lambda: q.dead_letters(limit=most))
    unchanged(lambda: q.list(limit=most))


@pytest.mark.parametrize("after", [-1, 1.5, True, None, "5", 10**30])
def test_bad_places_to_go_on_from(q: Queue, unchanged: Any, after: Any) -> None:
    unchanged(lambda: q.dead_letters(after=after))
    unchanged(lambda: q.list(after=after))


@pytest.mark.parametrize("status", ["", "READY", "pending", 0, ["ready"]])
def test_bad_statuses(q: Queue, unchanged: Any, status: Any) -> None:
    assert "ready" in unchanged(lambda: q.list(status))


@pytest.mark.parametrize("verb", ["show", "cancel", "requeue", "drop"])
def test_bad_ids(q: Queue, unchanged: Any, verb: str) -> None:
    act = getattr(q, verb)
    for unknown in (6, 99, 2**63 - 1):
        assert "'emails'" in unchanged(lambda unknown=unknown: act(unknown), UnknownJob)
    for bad in (0, -1, True, None, "1", 1.0, 2**63, 10**30):
        unchanged(lambda bad=bad: act(bad))


@pytest.mark.parametrize("verb", ["requeue", "drop"])
def test_only_the_dead_are_requeued_or_dropped(q: Queue, unchanged: Any, verb: str) -> None:
    for job in (2, 3, 4, 5):
        assert "dead" in unchanged(lambda job=job: getattr(q, verb)(job), WrongState)


VERBS: list[tuple[str, tuple[Any, ...]]] = [("complete", ()), ("fail", ("why",)), ("release", ()), ("extend", (60,))]


@pytest.mark.parametrize(("verb", "more"), VERBS)
def test_a_message_must_be_one_that_was_received(q: Queue, unchanged: Any, verb: str, more: Any) -> None:
    act = getattr(q, verb)
    for thing in (None, 5, "x", (1, "x", 1, 1, None), object()):
        assert "received" in unchanged(lambda thing=thing: act(thing, *more))
    for id, attempt, fence in [
        (0, 1, 1), (-1, 1, 1), ("1", 1, 1), (1, 0, 1), (1, None, 1), (1, 1, 0), (1, 1, -1), (1, 1, 1.0), (True, 1, 1),
        (1, 1, 2**63), (10**30, 1, 1), (1, 10**30, 1),
    ]:  # fmt: skip
        forged = Message(id, "x", attempt, fence, None)
        unchanged(lambda forged=forged: act(forged, *more))
    if verb == "complete":
        unchanged(lambda: q.complete_batch([None]))


@pytest.mark.parametrize(("verb", "more"), VERBS)
def test_an_id_that_never_was(q: Queue, unchanged: Any, verb: str, more: Any) -> None:
    unchanged(lambda: getattr(q, verb)(Message(99, "x", 1, 1, None), *more), UnknownJob)


@pytest.mark.parametrize("lane", [None, "a"])
@pytest.mark.parametrize(("verb", "more"), VERBS)
def test_a_forged_fence(q: Queue, dump: Dump, verb: str, more: Any, lane: str | None) -> None:
    q.send_batch(["one", "two"], lane=lane)
    message = q.receive()
    other = q.send("three")
    assert message is not None
    before = dump()
    act = getattr(q, verb)
    forgeries = [
        message._replace(fence=message.fence + 1),  # not given yet
        message._replace(fence=2**62),
        message._replace(id=message.id + 1),  # never claimed
        message._replace(id=other),
    ]
    for forged in forgeries:
        with pytest.raises(BadInput, match="fence"):
            act(forged, *more)
    assert dump() == before
    assert q.complete(message)


@pytest.mark.parametrize(("verb", "more"), VERBS)
def test_a_fence_of_another_message(q: Queue, dump: Dump, verb: str, more: Any) -> None:
    """A job never changes its lane: the fence of a live claim elsewhere cannot have been its own."""
    for lane in ("a", "b", None):
        q.send("x", lane=lane)
    one, two, free = [q.receive() for _ in range(3)]
    assert None not in (one, two, free)
    before = dump()
    act = getattr(q, verb)
    for message, fence in [(one, two), (two, one), (one, free), (free, one), (free, two)]:
        with pytest.raises(BadInput, match="give the message as it was received"):
            act(message._replace(fence=fence.fence), *more)
    assert dump() == before


@pytest.mark.parametrize(("verb", "more"), VERBS)
def test_a_message_settled_twice_is_late_even_while_its_claim_goes_on(
    q: Queue, dump: Dump, verb: str, more: Any
) -> None:
    """Without a lane one of several may leave a claim; its fence is then old, not forged."""
    q.send_batch(["one", "two"])
    one, _two = q.receive_batch(2)
    assert q.release(one)
    assert q.receive() is not None
    before = dump()
    assert getattr(q, verb)(one, *more) is False
    assert dump() == before


def test_a_message_of_another_queue(path: Path, clock: ManualClock, q: Queue, dump: Dump) -> None:
    with Queue(path, "other", durability="crash", clock=clock, boot="b") as other:
        q.send("x")
        message = q.receive()
        assert message is not None
        before = dump()
        for verb, more in VERBS:
            with pytest.raises(UnknownJob, match="'other'"):
                getattr(other, verb)(message, *more)
        assert dump() == before


@pytest.mark.parametrize("kind", [Queue, AsyncQueue])
@pytest.mark.parametrize(
    "terms",
    [
        {"name": ""}, {"name": "a/b"}, {"name": "a\n"}, {"name": 5}, {"name": "x" * 201}, {"name": None},
        {"lease": 0}, {"lease": -1}, {"lease": math.nan}, {"lease": True}, {"lease": "30"}, {"lease": 10**10},
        {"max_attempts": 0}, {"max_attempts": 1.5}, {"max_attempts": True}, {"max_attempts": 10**7},
        {"durability": "none"}, {"durability": None}, {"durability": "POWER"}, {"durability": ["power"]},
        {"max_bytes": 0}, {"max_bytes": 10**12}, {"max_bytes": 1.5},
        {"backoff": 0}, {"backoff": -1}, {"backoff": math.inf}, {"backoff": None},
    ],
    ids=repr,
)  # fmt: skip
def test_bad_terms_make_no_file(path: Path, kind: Any, terms: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        kind(path, **terms)
    assert not path.exists()


def test_bad_processors(q: Queue) -> None:
    for terms in ({"concurrency": 0}, {"concurrency": True}, {"drain": -1}, {"drain": math.nan}):
        with pytest.raises(BadInput):
            Processor(q, print, **terms)  # type: ignore[arg-type]


def test_files_that_are_not_a_jobs_file_are_left_alone(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    content = path.read_bytes()
    with pytest.raises(StoreCorrupt):
        Queue(path)
    assert path.read_bytes() == content


def test_an_office_is_not_a_jobs_file(path: Path) -> None:
    db = open_writer(path, "crash")
    OFFICE.migrate(db, str(path), 1)
    db.close()
    content = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="jobs file"):
        Queue(path)
    assert path.read_bytes() == content


def test_a_newer_jobs_file_is_left_alone(path: Path) -> None:
    Queue(path).close()
    db = open_writer(path, "crash", schema=_ANY)
    db.execute("insert into schema_migrations values ('m9999_later', 1)")
    db.close()
    content = path.read_bytes()
    with pytest.raises(StoreTooNew, match="m9999_later"):
        Queue(path)
    assert path.read_bytes() == content


class _Any:
    def refuse_foreign(self, *_: Any) -> None: ...
    def refuse_newer(self, *_: Any) -> None: ...


_ANY: Any = _Any()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly):
        Queue(tmp_path / "nowhere" / "jobs.db")
    with pytest.raises(StoreReadOnly):
        Queue(tmp_path)


def test_a_reason_is_cut_and_cleaned(q: Queue) -> None:
    q.send("x")
    message = q.receive()
    assert message is not None
    q.fail(message, "\ud800" + "x" * 5_000, permanent=True)
    (dead,) = q.dead_letters()
    assert dead.reason is not None
    assert dead.reason.startswith("?xxx")
    assert len(dead.reason) == 2_000
