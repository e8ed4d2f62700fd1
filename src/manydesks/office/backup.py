"""A backup: one file that holds an office as it is now, made while the office works or while it does not run.

The order is what makes it whole. Desks' files come first and the store after them: whatever a desk's copy holds, the
store has taken it or will. The files that rows name are there before their rows and may go soon after them, so they
are copied on both sides of the store. Everything else is copied as it is found.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from manydesks import __version__
from manydesks.domain.clock import Clock
from manydesks.domain.errors import BackupError, BadInput, MailboxTimeout, StoreFull
from manydesks.mailbox import copying, walk
from manydesks.mailbox.host import CAP_BYTES
from manydesks.office.archive import SECRET, Manifest, Packer, may_be_link
from manydesks.settings.home import Home, reason_of
from manydesks.store.copy import copy_store

#: a folder beside the backup for what is being made; what a killed one left is removed by the next
WORK = ".manydesks-backup-"
#: folders inside folders; a desk can make them without end
DEEPEST = 64

#: of a session's folder: copied by themselves; and what is of no use to another office
MAILBOX = (("in", "inbound.db"), ("out", "outbound.db"))
PASSING = ("refused", "trash", "out")

Told = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A backup that is on the disk."""

    path: Path
    bytes: int
    manifest: Manifest
    #: events up to here are in the lake only
    pruned: int


def backup(
    home: Home, target: Path, *, clock: Clock, with_secrets: bool, with_lake: bool | None, told: Told = lambda _: None
) -> Made:
    """Write the backup to `target`, which must not be there yet. Blocks. `with_lake` None: if it alone has old events.

    Whatever fails, and whenever it is killed: there is a whole backup under that name, or none.
    """
    if target.exists() or target.is_symlink():
        raise BadInput(f"{target} is there already; name another file.")
    if home.path in target.resolve().parents:
        raise BadInput(f"{target} lies inside the office that it would be a backup of; choose a place outside.")
    with _refusals(target), _workshop(target.parent) as work:
        part = work / "backup"
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w+b") as file:
            packer = Packer(file)
            try:
                packing = _Packing(home, packer, work, told)
                manifest = packing.all(clock.now(), with_secrets=with_secrets, with_lake=with_lake)
                packer.finish(manifest)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                packer.give_up()
                raise
        _name(part, target)
        return Made(path=target, bytes=target.stat().st_size, manifest=manifest, pruned=packing.pruned)


class _Packing:
    """What goes into one backup."""

    def __init__(self, home: Home, packer: Packer, work: Path, told: Told) -> None:
        self.packer = packer
        self._home = home
        self._work = work
        self._told = told
        self.pruned = 0

    def all(self, made_at: int, *, with_secrets: bool, with_lake: bool | None) -> Manifest:
        self._told("files")
        self._tree("files")
        self._sessions()
        self._told("store")
        copy = self._work / "office.db"
        copied = copy_store(self._home.office_db, copy)
        self.packer.add_file("office.db", copy)
        copy.unlink()
        for folder in ("files", "workspaces", "plugins"):
            self._told(folder)
            self._tree(folder)
        lake = copied.pruned > 0 if with_lake is None else with_lake
        if lake:
            self._told("lake")
            # a table's log before its files: what the log names is there, and stays
            self._tree("lake", first=lambda name: "_delta_log" not in name)
        for name in ("settings.toml", *(SECRET if with_secrets else ())):
            self._one(self._home.path, (name,), name)
        self.pruned = copied.pruned
        packer = self.packer
        return Manifest(
            made_by=__version__,
            made_at=made_at,
            schema=copied.schema,
            seq=copied.head,
            lake=lake,
            secrets=with_secrets,
            members=packer.members,
            folders=tuple(packer.folders),
            links=packer.links,
            left_out=packer.left_out,
        )

    def _sessions(self) -> None:
        self._told("sessions")
        root = self._home.sessions
        for agent in self._names(root, ()):
            for session in self._names(root, (agent,)):
                self._mailbox(agent, session)
                self._tree("sessions", below=(agent, session), but=_passing)

    def _mailbox(self, agent: str, session: str) -> None:
        folder = self._home.sessions / agent / session
        for parts in MAILBOX:
            name = "/".join(("sessions", agent, session, *parts))
            copy = self._work / "mailbox"
            journal = copy.with_name("mailbox-journal")
            try:
                if not os.path.lexists(folder.joinpath(*parts)):
                    continue
                if copying.copy(folder, parts, copy, cap_bytes=CAP_BYTES):
                    self.packer.add_file(f"{name}-journal", journal)
                self.packer.add_file(name, copy)
            except BadInput as refused:
                self.packer.left_out[name] = str(refused)
            except MailboxTimeout as locked:
                self.packer.left_out[name] = str(locked)
            finally:
                copy.unlink(missing_ok=True)
                journal.unlink(missing_ok=True)

    def _tree(
        self,
        top: str,
        *,
        below: tuple[str, ...] = (),
        but: Callable[[tuple[str, ...]], bool] = lambda _: False,
        first: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """All below a folder of the home, as it is found; what is there already is left alone."""
        root = self._home.path / top
        waiting = deque([below])
        while waiting:
            folder = waiting.popleft()
            for name in sorted(self._names(root, folder), key=lambda name: (first(name), name)):
                parts = (*folder, name)
                path = "/".join((top, *parts))
                if path in self.packer.members or but(parts):
                    continue
                if not _is_text(path):
                    self.packer.left_out[path.encode(errors="replace").decode()] = "its name is not text"
                    continue
                self._entry(root, parts, path, waiting)

    def _entry(self, root: Path, parts: tuple[str, ...], path: str, waiting: deque[tuple[str, ...]]) -> None:
        packer = self.packer
        try:
            with walk.folder(root, parts[:-1]) as inside:
                found = os.stat(parts[-1], dir_fd=inside, follow_symlinks=False)
                leads = os.readlink(parts[-1], dir_fd=inside) if stat.S_ISLNK(found.st_mode) else ""
        except FileNotFoundError:
            return  # it was there a moment ago
        except (BadInput, OSError) as error:
            packer.left_out[path] = str(error) if isinstance(error, BadInput) else reason_of(error)
            return
        if stat.S_ISDIR(found.st_mode):
            if len(parts) >= DEEPEST:
                packer.left_out[path] = f"it lies more than {DEEPEST} folders deep"
                return
            packer.folders[path] = None
            waiting.append(parts)
        elif stat.S_ISLNK(found.st_mode):
            if may_be_link(path) and _is_text(leads):
                packer.links[path] = leads
            else:
                packer.left_out[path] = "it is a symbolic link"
        elif stat.S_ISREG(found.st_mode):
            self._one(root, parts, path)
        # sockets, pipes and devices belong to a process that runs, or to nobody

    def _one(self, root: Path, parts: tuple[str, ...], path: str) -> None:
        if not os.path.lexists(root.joinpath(*parts)):
            return
        try:
            with walk.opened(root, parts) as source:
                self.packer.add(path, source)
        except BadInput as refused:
            self.packer.left_out[path] = str(refused)

    def _names(self, root: Path, parts: tuple[str, ...]) -> list[str]:
        try:
            with walk.folder(root, parts) as handle, os.scandir(handle) as entries:
                return sorted(entry.name for entry in entries)
        except BadInput as refused:
            if os.path.lexists(root.joinpath(*parts)):
                self.packer.left_out["/".join((root.name, *parts))] = str(refused)
            return []


def _passing(parts: tuple[str, ...]) -> bool:
    """(agent, session, …): the mailbox's files were copied by themselves, or refused; links for reading, refused files
    and the like are of no use."""
    inside = parts[2:]
    if len(inside) == 2 and inside[0] in ("in", "out"):
        return inside[1].startswith(("inbound.db", "outbound.db", "damaged-"))
    return len(inside) == 2 and inside[0] == "host" and (inside[1] in PASSING or inside[1].startswith("look-"))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\\" not in name


@contextlib.contextmanager
def _workshop(beside: Path) -> Iterator[Path]:
    """A folder of our own on the backup's disk. Those of killed backups, which nobody holds any more, go first."""
    for old in beside.glob(f"{WORK}*"):
        with contextlib.suppress(OSError), held(old):
            shutil.rmtree(old, ignore_errors=True)
    work = beside / f"{WORK}{secrets.token_hex(8)}"
    work.mkdir(mode=0o700)
    try:
        with held(work):
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Nobody else's while this lasts: a folder that is held is being made. OSError: somebody has it."""
    handle = os.open(folder, walk.FOLDER)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _name(part: Path, target: Path) -> None:
    """Under its own name at last; never over something that came there meanwhile, where the disk can do that."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise BadInput(f"{target} is there already; name another file.") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        part.rename(target)
    handle = os.open(target.parent, walk.FOLDER)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _refusals(target: Path) -> Iterator[None]:
    try:
        yield
    except StoreFull as error:
        raise BackupError(what=f"The backup {target}", reason="the disk is full") from error
    except OSError as error:
        raise BackupError(what=f"The backup {target}", reason=reason_of(error)) from error
