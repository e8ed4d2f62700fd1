"""The host's side: writes inbound.db, reads outbound.db as the work of a stranger."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput, MailboxError, MailboxFull, MailboxRefused, MailboxTimeout
from manydesks.domain.ids import is_public_id
from manydesks.domain.mail import KINDS, Collected, Content, Inbound
from manydesks.mailbox import aside, collector, hostile, validation
from manydesks.mailbox.connection import (
    LOCK_SECONDS,
    SQLITE_BUSY,
    SQLITE_CORRUPT,
    SQLITE_FULL,
    SQLITE_NOTADB,
    connected,
    primary,
    transaction,
)
from manydesks.mailbox.schema import INBOUND, INBOUND_SCHEMA, UPGRADES_IN

CAP_BYTES = 256 << 20
#: acks that were read but not yet noted in inbound.db; more than these and the desk filters the rest itself
MAX_SETTLED = 10_000
#: of a session
FOLDERS = ("in", "out", "state", "host", "in/inbox", "out/outbox")

# A row of a newer fence replaces an older one and is pending again; it keeps its number.
_PUT = """
  INSERT INTO messages_in
    (seq, id, run, fence, kind, at, status, status_changed, not_before, tries, "trigger", reply_to, content)
  VALUES (?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET
    run = excluded.run, fence = excluded.fence, kind = excluded.kind, at = excluded.at, status = excluded.status,
    status_changed = excluded.status_changed, not_before = excluded.not_before, tries = excluded.tries,
    "trigger" = excluded."trigger", reply_to = excluded.reply_to, content = excluded.content
  WHERE excluded.fence >= fence"""

_WITHDRAW = """
  UPDATE messages_in SET status = 'withdrawn', status_changed = ? WHERE fence <= ? AND status = 'pending'"""

_SETTLE = """
  UPDATE messages_in SET status = 'settled', status_changed = ? WHERE id = ? AND fence = ? AND status = 'pending'"""

_DELIVERED = """
  INSERT INTO delivered (out_id, receipt, status, at) VALUES (?, ?, ?, ?)
  ON CONFLICT (out_id) DO UPDATE SET receipt = excluded.receipt, status = excluded.status, at = excluded.at"""


class HostMailbox:
    """The file mailbox of one session, as `HostSide`; usable from any thread.

    inbound.db is a cache of the store: it is written without waiting for the disk, and a damaged one is made anew by
    `prepare`. Its journal is truncated, not deleted: a reader takes an empty journal for none without opening it, and
    no name comes and goes in a folder that the desk has mounted.
    """

    def __init__(
        self,
        folder: Path,
        *,
        session: str,
        agent: str,
        clock: Clock | None = None,
        cap_bytes: int = CAP_BYTES,
    ) -> None:
        self.folder = folder
        self.session = session
        self.agent = agent
        self._clock = clock or SystemClock()
        self._cap_bytes = cap_bytes
        self._inbound = folder / "in" / "inbound.db"
        self._out = folder / "out"
        # only the host may look into it: it is beside the folders that are mounted
        self._private = folder / "host"
        self._folders = tuple(str(folder / name) for name in FOLDERS)
        self._lock = threading.Lock()
        self._settled: list[tuple[str, int]] = []

    def prepare(self) -> None:
        self._make_folders()
        with self._lock:
            try:
                self._make()
            except sqlite3.DatabaseError as error:
                if primary(error) not in (SQLITE_CORRUPT, SQLITE_NOTADB):
                    raise self._failure(error) from error
                for name in ("inbound.db-journal", "inbound.db"):
                    with suppress(FileNotFoundError):
                        (self.folder / "in" / name).unlink()
                # numbers that agents have seen must not come again: an old one could not exceed the seconds since 1970
                try:
                    self._make(last_seq=self._clock.now() // 2_000 * 2)
                except sqlite3.DatabaseError as again:
                    raise self._failure(again) from again

    def hand_over(self, rows: Sequence[Inbound]) -> None:
        """`prepare` and `put`, for a mailbox that was prepared before: it is looked at closely only if that fails."""
        self._make_folders()
        try:
            self.put(rows)
        except (MailboxTimeout, MailboxFull):
            raise
        except MailboxError:
            self.prepare()
            self.put(rows)

    def _make_folders(self) -> None:
        if all(map(_is_plain_folder, self._folders)):
            return
        # `parents=True` would make the folders on the way as the umask says
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for name in FOLDERS:
            path = self.folder / name
            if name == "out/outbox" and not _is_folder(path):
                # the only one of them that a desk in a sandbox can replace: by that it shall not stop its own session
                aside.move([path], self._private)
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                if not _is_folder(path):
                    raise MailboxRefused(path=path, reason="it is not a folder") from None

    def put(self, rows: Sequence[Inbound]) -> None:
        now = self._clock.now()
        packed = [(row, self._packed(row)) for row in rows]
        with self._writing() as connection:
            (seq,) = connection.execute("SELECT last_seq FROM meta").fetchone()
            known = "SELECT 1 FROM messages_in WHERE id = ?"
            for row, content in packed:
                if connection.execute(known, (row.id,)).fetchone() is None:
                    seq += 2
                values = (seq, row.id, row.run, row.fence, row.kind, row.at, now, row.not_before, row.tries)
                connection.execute(_PUT, (*values, int(row.trigger), row.reply_to, content))
            connection.execute("UPDATE meta SET last_seq = ?", (seq,))

    def withdraw(self, fence: int) -> None:
        with self._writing() as connection:
            connection.execute(_WITHDRAW, (self._clock.now(), fence))

    def control(self, verb: str, data: Content) -> None:
        packed = _fit(data)
        with self._writing() as connection:
            connection.execute("INSERT INTO control (verb, data) VALUES (?, ?)", (verb, packed))

    def delivered(self, out_id: str, receipt: str | None, status: str, at: int) -> None:
        with self._writing() as connection:
            connection.execute(_DELIVERED, (out_id, receipt, status, at))

    def collect(self, epoch: str | None, after: int, *, limit: int = 500) -> Collected | None:
        token = f"look-{os.getpid()}-{threading.get_ident()}"
        with hostile.outbound(self._out, self._private, token=token, cap_bytes=self._cap_bytes) as connection:
            if connection is None:
                return None
            collected = collector.page(connection, epoch, after, limit)
        with self._lock:
            if len(self._settled) < MAX_SETTLED:
                self._settled.extend((ack.message, ack.fence) for ack in collected.acks)
        return collected

    def reach(self) -> tuple[str, int] | None:
        """The epoch of the desk's file, and the last number given in it; None: there is none. Raises as `collect`."""
        token = f"look-{os.getpid()}-{threading.get_ident()}"
        with hostile.outbound(self._out, self._private, token=token, cap_bytes=self._cap_bytes) as connection:
            return None if connection is None else collector.reach(connection)

    def last_heartbeat(self) -> int | None:
        try:
            return (self._out / "heartbeat").lstat().st_mtime_ns // 1_000_000
        except OSError:
            return None

    def set_aside(self) -> None:
        """Move a refused outbound.db, and what lies beside it, out of the desk's reach; the next runner starts a new
        epoch.

        Only for a session whose runner has ended. The last ones set aside are kept, in `host/refused`.
        """
        names = (*hostile.BESIDE, hostile.NAME)
        try:
            aside.move((self._out / name for name in names), self._private)
        except OSError as error:
            raise MailboxError(reason=f"{self._out / hostile.NAME} cannot be moved aside ({error.strerror})") from None

    def _make(self, *, last_seq: int = 0) -> None:
        self._inbound.touch(mode=0o600)
        with connected(self._inbound, "rw") as connection:
            _tune(connection)
            with transaction(connection):
                if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone() is None:
                    for statement in INBOUND:
                        connection.execute(statement)
                    connection.execute(
                        "INSERT INTO meta (one, schema, session, agent, last_seq) VALUES (1, ?, ?, ?, ?)",
                        (INBOUND_SCHEMA, self.session, self.agent, last_seq),
                    )
                    return
                schema, session, agent = connection.execute("SELECT schema, session, agent FROM meta").fetchone()
                if (session, agent) != (self.session, self.agent):
                    raise MailboxError(reason=f"{self._inbound} belongs to session {session} of {agent}")
                if schema > INBOUND_SCHEMA:
                    raise MailboxError(reason=f"{self._inbound} was written by a newer ManyDesks; update ManyDesks")
                for number in range(schema, INBOUND_SCHEMA):
                    for statement in UPGRADES_IN[number]:
                        connection.execute(statement)
                    connection.execute("UPDATE meta SET schema = ?", (number + 1,))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction on inbound.db, which also notes the acks that were read since the last one."""
        with self._lock:
            settled = list(self._settled)
            try:
                with connected(self._inbound, "rw") as connection:
                    _tune(connection)
                    with transaction(connection):
                        if settled:
                            now = self._clock.now()
                            connection.executemany(_SETTLE, [(now, message, fence) for message, fence in settled])
                        yield connection
            except sqlite3.Error as error:
                raise self._failure(error) from error
            self._settled.clear()

    def _packed(self, row: Inbound) -> str:
        if not is_public_id(row.id) or not is_public_id(row.run) or row.kind not in KINDS or row.tries < 1:
            raise BadInput(
                reason=f"message '{row.id}' needs public ids, a kind of {', '.join(KINDS)}, and tries from 1"
            )
        return _fit(row.content)

    def _failure(self, error: sqlite3.Error) -> MailboxError:
        if primary(error) == SQLITE_BUSY:
            return MailboxTimeout(path=self._inbound, seconds=LOCK_SECONDS)
        if primary(error) == SQLITE_FULL:
            return MailboxFull(path=self._inbound)
        return MailboxError(reason=f"{self._inbound}: {error}")


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_plain_folder(path: str) -> bool:
    """As `_is_folder`, in one call to the kernel: it is asked for every run."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _tune(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = OFF")


def _fit(content: Content) -> str:
    try:
        return validation.pack(content, validation.MAX_INBOUND)
    except validation.RowError as error:
        raise BadInput(reason=str(error)) from None
