"""One page of what the desk wrote, every row checked."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from manydesks.domain.mail import Ack, Collected, Outbound, Step
from manydesks.mailbox import validation
from manydesks.mailbox.schema import OUTBOUND
from manydesks.mailbox.validation import MAX_INTEGER, RowError

#: a page ends before the row that would make it larger than this
PAGE_BYTES = 16 << 20

#: (seq, table, columns)
_Row = tuple[Any, str, tuple[Any, ...]]

_MESSAGES = """
  SELECT seq, id, run, fence, in_reply_to, at, deliver_after, kind, destination, content
  FROM messages_out WHERE seq > ? ORDER BY seq"""
_ACKS = "SELECT seq, message, run, fence, status, class, reason, retry_after, at FROM acks WHERE seq > ? ORDER BY seq"
_STEPS = "SELECT seq, run, at, type, data FROM steps WHERE seq > ? ORDER BY seq"


def reach(connection: sqlite3.Connection) -> tuple[str, int]:
    """The file's epoch, and the last number that was given in it. Raises `RowError` as `page` does."""
    found = connection.execute("SELECT epoch, last_seq FROM meta").fetchall()
    if len(found) != 1:
        raise RowError("meta does not have exactly one row")
    current, last = found[0]
    if not isinstance(last, int) or not -MAX_INTEGER <= last <= MAX_INTEGER:
        raise RowError("its last number is not one")
    return validation.epoch(current), last


def page(connection: sqlite3.Connection, epoch: str | None, after: int, limit: int) -> Collected:
    """Raises `RowError` for anything that a desk may not write."""
    found = connection.execute("SELECT schema, epoch, last_seq FROM meta").fetchall()
    if len(found) != 1:
        raise RowError("meta does not have exactly one row")
    schema, current, last = found[0]
    if schema not in OUTBOUND:
        raise RowError("its schema is not known")
    current = validation.epoch(current)
    # A file restored from a copy keeps its epoch but counts from an older number: without this its rows are ignored.
    restored = current == epoch and (not isinstance(last, int) or last < after)
    if current != epoch or restored:
        after = 0
    rows, more = _cut(_merged(connection, after), limit)
    messages: list[Outbound] = []
    acks: list[Ack] = []
    steps: list[Step] = []
    for seq, table, columns in rows:
        try:
            if table == "messages_out":
                messages.append(_message(columns))
            elif table == "acks":
                acks.append(_ack(columns))
            else:
                steps.append(_step(columns))
        except RowError as error:
            raise RowError(f"row {seq} of {table}: {error}") from None
    state = validation.state(connection.execute("SELECT key, value FROM state"))
    return Collected(
        epoch=current,
        last_seq=rows[-1][0] if rows else after,
        messages=tuple(messages),
        acks=tuple(acks),
        steps=tuple(steps),
        state=state,
        more=more,
        restored=restored,
    )


def _merged(connection: sqlite3.Connection, after: int) -> Iterator[_Row]:
    def rows(table: str, query: str) -> Iterator[_Row]:
        for columns in connection.execute(query, (after,)):
            yield columns[0], table, columns

    before = after
    tables = (rows("steps", _STEPS), rows("messages_out", _MESSAGES), rows("acks", _ACKS))
    for row in heapq.merge(*tables, key=itemgetter(0)):
        seq = row[0]
        if not isinstance(seq, int) or seq % 2 != 1 or not before < seq <= MAX_INTEGER:
            raise RowError(f"row {seq} of {row[1]} is out of order or not odd")
        before = seq
        yield row


def _cut(rows: Iterator[_Row], limit: int) -> tuple[list[_Row], bool]:
    """At most `limit` rows, cut where the desk's transactions end: there its numbers skip one."""
    taken: list[_Row] = []
    size = 0
    for row in rows:
        size += sum(len(value) for value in row[2] if isinstance(value, str | bytes))
        if taken and (len(taken) >= limit or size > PAGE_BYTES):
            for end in range(len(taken), 0, -1):
                following = taken[end][0] if end < len(taken) else row[0]
                if following - taken[end - 1][0] > 2:
                    return taken[:end], True
            return taken, True
        taken.append(row)
    return taken, False


def _message(columns: tuple[Any, ...]) -> Outbound:
    seq, id, run, fence, in_reply_to, at, deliver_after, kind, destination, content = columns
    row = Outbound(
        id=id,
        seq=seq,
        run=run,
        fence=fence,
        in_reply_to=in_reply_to,
        at=at,
        deliver_after=deliver_after,
        kind=kind,
        destination=destination,
        content=validation.unpack(content),
    )
    validation.outbound(row)
    return row


def _ack(columns: tuple[Any, ...]) -> Ack:
    seq, message, run, fence, status, failure, reason, retry_after, at = columns
    row = Ack(
        message=message,
        run=run,
        fence=fence,
        status=status,
        at=at,
        seq=seq,
        failure=failure,
        reason=reason,
        retry_after=retry_after,
    )
    validation.ack(row)
    return row


def _step(columns: tuple[Any, ...]) -> Step:
    seq, run, at, type, data = columns
    row = Step(seq=seq, run=run, at=at, type=type, data=validation.unpack(data))
    validation.step(row)
    return row
