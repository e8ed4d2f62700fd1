"""The ledger: no gap, no unknown word, no dead word; and counters that tell the truth."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import manydesks
from manydesks.domain.errors import BadInput, Duplicate
from manydesks.domain.event import KINDS
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.writer import Writer

SOURCES = Path(manydesks.__file__).parent


def seqs(writer: Writer) -> list[int]:
    return [seq for (seq,) in writer.run(lambda tx: tx.all("select seq from events order by seq"))]


def head(writer: Writer) -> int:
    return int(writer.run(lambda tx: tx.all("select seq from ledger_head"))[0][0])


def note(tx: OfficeTransaction) -> None:
    tx.event("processor_start", version="1")


def test_the_first_event_is_number_one_and_the_head_follows(writer: Writer) -> None:
    assert head(writer) == 0
    writer.run(note)
    writer.run(lambda tx: (note(tx), note(tx)))
    assert seqs(writer) == [1, 2, 3]
    assert head(writer) == 3


def test_a_rolled_back_transaction_leaves_no_gap(writer: Writer) -> None:
    def broken(tx: OfficeTransaction) -> None:
        note(tx)
        raise ZeroDivisionError

    def refused(tx: OfficeTransaction) -> None:
        note(tx)
        raise BadInput("no")

    for operation, error in ((broken, ZeroDivisionError), (refused, BadInput)):
        writer.run(note)
        with pytest.raises(error):
            writer.run(operation)
    writer.run(note)
    assert seqs(writer) == [1, 2, 3]


def test_the_number_goes_on_after_the_events_were_pruned(writer: Writer) -> None:
    writer.run(lambda tx: (note(tx), note(tx)))
    writer.run(lambda tx: tx.run("delete from events"))
    writer.run(note)
    assert seqs(writer) == [3]


async def test_seq_goes_on_over_refusals_and_restarts(office: Any) -> None:
    await office.sent(key="api_known")
    for _ in range(3):
        before = office.head()
        with pytest.raises(Duplicate):
            await office.sent(key="api_known")
        with pytest.raises(BadInput):
            await office.sent("")
        assert office.head() == before
        await office.reopen()
        await office.sent()
        assert office.head() > before
    numbers = [seq for (seq,) in office.rows("select seq from events order by seq")]
    assert numbers == list(range(1, office.head() + 1))


def test_an_unknown_kind_is_refused(writer: Writer) -> None:
    with pytest.raises(KeyError):
        writer.run(lambda tx: tx.event("message_vanished"))
    assert seqs(writer) == []


def test_an_unknown_field_is_refused(writer: Writer) -> None:
    with pytest.raises(ValueError, match=r"processor_start has no field.*colour"):
        writer.run(lambda tx: tx.event("processor_start", colour="red"))
    assert seqs(writer) == []


def words() -> Iterator[str]:
    """Every text constant in the package but those of the vocabulary itself."""
    for path in SOURCES.rglob("*.py"):
        if path == SOURCES / "domain" / "event.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def written_kinds() -> Iterator[tuple[str, str]]:
    """(file, kind) of every event written with its kind spelled out."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("event", "note")
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and re.fullmatch(r"[a-z]+(_[a-z]+)+", str(node.args[0].value))
            ):
                yield str(path.relative_to(SOURCES)), str(node.args[0].value)


def test_every_kind_that_is_written_is_in_the_vocabulary() -> None:
    found = list(written_kinds())
    assert len(found) > 20
    assert [(path, kind) for path, kind in found if kind not in KINDS] == []


def test_the_vocabulary_has_no_dead_words() -> None:
    assert sorted(KINDS.keys() - set(words())) == []


async def test_the_kinds_of_an_ordinary_day_carry_what_they_promise(office: Any) -> None:
    """A message, a tool, an answer with a hand-off, a failure: who, where and which, on every event."""
    message = await office.sent("hello", to="ada")
    claimed, desk = await office.begin()
    desk.step("tool_call", tool="look", id="1", arguments={}).step("tool_result", tool="look", id="1", ok=True)
    await desk.say("done [@bob: go on]").ack(message).take()
    about = ("trace", "message", "run", "session", "agent")
    rows = office.rows(f"select kind, {', '.join(about)} from events")
    for kind in ("message_received", "chain_step_start", "tool_called", "tool_done", "message_completed",
                 "chain_step_done", "run_usage", "response_ready"):  # fmt: skip
        (found,) = [row[1:] for row in rows if row[0] == kind]
        trace = office.one("select trace from messages where message_id = ?", message)
        assert found == (trace, message, claimed.run, claimed.session, "ada"), kind
    (handed,) = [row for row in rows if row[0] == "chain_handoff"]
    assert handed[1] == trace
    assert handed[5] == "bob"
