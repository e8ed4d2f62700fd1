"""The desk's side: reads inbound.db, writes outbound.db."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput, MailboxError, MailboxFull, MailboxTimeout
from manydesks.domain.mail import Ack, Control, Delivery, Inbound, Outbound, Step, Written
from manydesks.mailbox import validation
from manydesks.mailbox.connection import (
    LOCK_SECONDS,
    SQLITE_BUSY,
    SQLITE_CANTOPEN,
    SQLITE_CORRUPT,
    SQLITE_FULL,
    SQLITE_NOTADB,
    SQLITE_READONLY_ROLLBACK,
    connected,
    detailed,
    primary,
    transaction,
)
from manydesks.mailbox.schema import OUTBOUND_1, OUTBOUND_SCHEMA, UPGRADES_OUT

FIRST_SEQ = 1
#: from the last number of one write to the first of the next: one odd number is left out, so the host sees the seam
GAP = 4

_WAITING = """
  SELECT seq, id, run, fence, kind, at, not_before, tries, "trigger", reply_to, content
  FROM messages_in WHERE status = 'pending' AND (not_before IS NULL OR not_before <= ?) ORDER BY seq"""

_CONTROLS = "SELECT seq, verb, data FROM control WHERE seq > ? ORDER BY seq"

_MESSAGE = """
  INSERT INTO messages_out (seq, id, run, fence, in_reply_to, at, deliver_after, kind, destination, content)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_ACK = """
  INSERT INTO acks (seq, message, run, fence, status, class, reason, retry_after, at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_STEP = "INSERT INTO steps (seq, run, at, type, data) VALUES (?, ?, ?, ?, ?)"

_STATE = "INSERT INTO state (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_FORGET = "DELETE FROM state WHERE key = ?"


class DeskMailbox:
    """The file mailbox of one session, as `DeskSide`. One process at a time; any of its threads.

    For use at the desk, or in the host for folders that no sandbox ever wrote to: opening outbound.db replays its
    journal, and a forged journal may do harm to whoever replays it.
    The journal is truncated, not deleted: an empty one is no journal to every reader, and nothing in `out/` comes and
    goes. `synchronous` is NORMAL: an answer survives the end of the process, and of the machine but for a rare torn
    write that the next `open` finds.
    """

    def __init__(self, folder_in: Path, folder_out: Path, *, clock: Clock | None = None) -> None:
        self._inbound = folder_in / "inbound.db"
        self._outbound = folder_out / "outbound.db"
        self._heartbeat = folder_out / "heartbeat"
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        # fence → the messages acked under it, and whether it has ended; this process is the only writer
        self._acked: dict[int, set[str]] = {}
        self._ended: dict[int, bool] = {}
        # no fence above it has an ack: for a new claim outbound.db need not be asked
        self._highest = 0

    def open(self) -> None:
        with self._lock:
            self._acked.clear()
            self._ended.clear()
            self._highest = 0
            try:
                self._make()
            except sqlite3.DatabaseError as error:
                if primary(error) not in (SQLITE_CORRUPT, SQLITE_NOTADB):
                    raise self._failure(self._outbound, error) from error
                self._move_aside()
                try:
                    self._make()
                except sqlite3.DatabaseError as again:
                    raise self._failure(self._outbound, again) from again

    def waiting(self) -> list[Inbound]:
        (rows,) = self._read((_WAITING, (self._clock.now(),)))
        return self._not_acked(rows)

    def look(self, after: int) -> tuple[list[Control], list[Inbound]]:
        # in one connection: to open the file takes longer than to read either
        words, rows = self._read((_CONTROLS, (after,)), (_WAITING, (self._clock.now(),)))
        return _heard(words), self._not_acked(rows)

    def _not_acked(self, rows: list[tuple[Any, ...]]) -> list[Inbound]:
        with self._lock:
            self._learn({row[3] for row in rows})
            return [_inbound(row) for row in rows if not self._ended[row[3]] and row[1] not in self._acked[row[3]]]

    def write(
        self,
        *,
        messages: Sequence[Outbound] = (),
        acks: Sequence[Ack] = (),
        steps: Sequence[Step] = (),
        state: Mapping[str, str | None] | None = None,
    ) -> Written:
        try:
            packed_messages = [(row, validation.pack(row.content)) for row in messages]
            packed_steps = [(row, validation.pack(row.data)) for row in steps]
            for message in messages:
                validation.outbound(message)
            for step in steps:
                validation.step(step)
            for ack in acks:
                validation.ack(ack)
            kept = validation.state((key, value) for key, value in (state or {}).items() if value is not None)
        except validation.RowError as error:
            raise BadInput(reason=str(error)) from None
        gone = [(key,) for key, value in (state or {}).items() if value is None]
        with self._lock:
            with self._writing() as connection:
                (last,) = connection.execute("SELECT last_seq FROM meta").fetchone()
                # Steps come first and acks last, so whoever reads in order knows all of a run before it ends.
                numbers = count(last + GAP, 2)
                step_seqs = tuple(next(numbers) for _ in steps)
                message_seqs = tuple(next(numbers) for _ in messages)
                ack_seqs = tuple(next(numbers) for _ in acks)
                step_rows = [
                    (n, s.run, s.at, s.type, data) for n, (s, data) in zip(step_seqs, packed_steps, strict=True)
                ]
                message_rows = [
                    (n, m.id, m.run, m.fence, m.in_reply_to, m.at, m.deliver_after, m.kind, m.destination, content)
                    for n, (m, content) in zip(message_seqs, packed_messages, strict=True)
                ]
                ack_rows = [
                    (n, a.message, a.run, a.fence, a.status, a.failure, a.reason, a.retry_after, a.at)
                    for n, a in zip(ack_seqs, acks, strict=True)
                ]
                for statement, rows in (
                    (_STEP, step_rows),
                    (_MESSAGE, message_rows),
                    (_ACK, ack_rows),
                    (_STATE, list(kept.items())),
                    (_FORGET, gone),
                ):
                    # most are empty, and SQLite would read the statement all the same
                    if rows:
                        connection.executemany(statement, rows)
                used = (*step_seqs, *message_seqs, *ack_seqs)
                if used:
                    connection.execute("UPDATE meta SET last_seq = ?", (used[-1],))
            for ack in acks:
                self._highest = max(self._highest, ack.fence)
                if ack.fence in self._acked:
                    self._acked[ack.fence].add(ack.message)
                    self._ended[ack.fence] |= ack.status == "failed"
        return Written(messages=message_seqs, acks=ack_seqs, steps=step_seqs)

    def controls(self, after: int) -> list[Control]:
        (words,) = self._read((_CONTROLS, (after,)))
        return _heard(words)

    def find(self, seq: int) -> str | None:
        if not 0 < seq <= validation.MAX_INTEGER:
            return None
        if seq % 2 == 0:
            (rows,) = self._read(("SELECT id FROM messages_in WHERE seq = ?", (seq,)))
        else:
            try:
                with self._lock, connected(self._outbound, "rw") as connection:
                    rows = connection.execute("SELECT id FROM messages_out WHERE seq = ?", (seq,)).fetchall()
            except sqlite3.Error as error:
                raise self._failure(self._outbound, error) from error
        return rows[0][0] if rows else None

    def delivery(self, out_id: str) -> Delivery | None:
        (rows,) = self._read(("SELECT out_id, receipt, status, at FROM delivered WHERE out_id = ?", (out_id,)))
        for found, receipt, status, at in rows:
            return Delivery(out_id=found, receipt=receipt, status=status, at=at)
        return None

    def heartbeat(self) -> None:
        try:
            # a link that leads nowhere, or in a circle, beats as well as a file
            os.utime(self._heartbeat, follow_symlinks=False)
        except FileNotFoundError:
            self._heartbeat.touch(mode=0o600)

    def _read(self, *queries: tuple[str, tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """The rows of each query to inbound.db."""
        try:
            with connected(self._inbound, "ro") as connection:
                return [connection.execute(query, values).fetchall() for query, values in queries]
        except sqlite3.Error as error:
            # no file yet, or a host that died in a write: it repairs its own file when it writes next
            if primary(error) == SQLITE_CANTOPEN or detailed(error) == SQLITE_READONLY_ROLLBACK:
                return [[] for _ in queries]
            raise self._failure(self._inbound, error) from error

    def _learn(self, fences: set[int]) -> None:
        """Know the acks of exactly these fences; others are forgotten, so a warm runner does not grow."""
        for fence in [fence for fence in self._acked if fence not in fences]:
            del self._acked[fence], self._ended[fence]
        for fence in [fence for fence in fences if fence > self._highest and fence not in self._acked]:
            self._acked[fence], self._ended[fence] = set(), False
        unknown = fences - self._acked.keys()
        if not unknown:
            return
        try:
            with connected(self._outbound, "rw") as connection:
                for fence in unknown:
                    found = connection.execute("SELECT message, status FROM acks WHERE fence = ?", (fence,)).fetchall()
                    self._acked[fence] = {message for message, _ in found}
                    self._ended[fence] = any(status == "failed" for _, status in found)
        except sqlite3.Error as error:
            raise self._failure(self._outbound, error) from error

    def _make(self) -> None:
        with connected(self._outbound, "rwc") as connection:
            _tune(connection)
            # a file that is damaged somewhere would only say so in the middle of a run
            for (finding,) in connection.execute("PRAGMA quick_check(1)").fetchall():
                if finding != "ok":
                    raise _damaged(finding)
            with transaction(connection):
                objects = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
                if not objects:
                    for statement in OUTBOUND_1:
                        connection.execute(statement)
                    connection.execute(
                        "INSERT INTO meta (one, schema, epoch, last_seq) VALUES (1, ?, ?, ?)",
                        (OUTBOUND_SCHEMA, secrets.token_hex(16), FIRST_SEQ - GAP),
                    )
                    return
                found = connection.execute("SELECT schema FROM meta").fetchall() if "meta" in objects else []
                if len(found) != 1:
                    raise _damaged("it has tables, but not those of a mailbox")
                (schema,) = found[0]
                if schema > OUTBOUND_SCHEMA:
                    raise MailboxError(reason=f"{self._outbound} was written by a newer ManyDesks; update ManyDesks")
                for number in range(schema, OUTBOUND_SCHEMA):
                    for statement in UPGRADES_OUT[number]:
                        connection.execute(statement)
                    connection.execute("UPDATE meta SET schema = ?", (number + 1,))
                (highest,) = connection.execute("SELECT max(fence) FROM acks").fetchone()
                self._highest = highest or 0

    def _move_aside(self) -> None:
        # The journal first: a journal left alone would be replayed into the new file.
        for suffix in ("-journal", "-wal", "-shm", ""):
            path = self._outbound.with_name(self._outbound.name + suffix)
            with suppress(FileNotFoundError):
                try:
                    path.replace(path.with_name(f"damaged-{path.name}"))
                except OSError:
                    # something that is no file lies there: under another name then
                    path.replace(path.with_name(f"damaged-{secrets.token_hex(4)}-{path.name}"))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with connected(self._outbound, "rw") as connection:
                _tune(connection)
                with transaction(connection):
                    yield connection
        except sqlite3.IntegrityError as error:
            raise BadInput(reason=f"a message id or an ack was written before ({error})") from None
        except sqlite3.Error as error:
            raise self._failure(self._outbound, error) from error

    def _failure(self, path: Path, error: sqlite3.Error) -> MailboxError:
        if primary(error) == SQLITE_BUSY:
            return MailboxTimeout(path=path, seconds=LOCK_SECONDS)
        if primary(error) == SQLITE_FULL:
            return MailboxFull(path=path)
        return MailboxError(reason=f"{path}: {error}")


def _tune(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = NORMAL")


def _damaged(reason: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = SQLITE_CORRUPT
    return error


def _heard(words: list[tuple[Any, ...]]) -> list[Control]:
    return [Control(seq=seq, verb=verb, data=json.loads(data)) for seq, verb, data in words]


def _inbound(row: tuple[Any, ...]) -> Inbound:
    seq, id, run, fence, kind, at, not_before, tries, trigger, reply_to, content = row
    return Inbound(
        id=id,
        run=run,
        fence=fence,
        kind=kind,
        at=at,
        tries=tries,
        content=json.loads(content),
        trigger=bool(trigger),
        reply_to=reply_to,
        not_before=not_before,
        seq=seq,
    )
