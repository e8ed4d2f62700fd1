"""Putting an office back from a backup: all of it, or nothing.

Everything is unpacked, checked and made ready in a folder beside the home, which then takes the home's place in one
step. Whatever was in that place is moved aside, never removed. A restore that is killed leaves the home as it was, or
as it shall be, and a folder beside it that the next one removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.clock import Clock
from manydesks.domain.errors import BackupError, HomeError, ManyDesksError, SettingsError
from manydesks.mailbox import walk
from manydesks.mailbox.host import HostMailbox
from manydesks.office.accounts import accounts
from manydesks.office.archive import SECRET, Archive, Manifest
from manydesks.office.backup import held
from manydesks.office.lock import host_locks
from manydesks.office.swap import swap
from manydesks.settings.home import Home, reason_of
from manydesks.settings.load import load_settings
from manydesks.settings.model import Settings
from manydesks.store.copy import look_at
from manydesks.store.restored import Restored
from manydesks.store.store import Store

#: more than this must be left on the disk: the store is opened, and its log needs room
SPARE_BYTES = 64 << 20

#: in a folder that is being filled, and in no office
UNFINISHED = ".unfinished"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """An office that stands where it shall."""

    manifest: Manifest
    #: what it cannot know any more
    restored: Restored
    #: where what was in its place is now; None: nothing was
    aside: Path | None
    #: files that the backup does not have, taken over from there
    kept: tuple[str, ...]


def is_empty(home: Home) -> bool:
    """Whether nothing is in the home that anybody could miss: locks and empty folders are not."""
    if not home.path.is_dir():
        return not os.path.lexists(home.path)
    for path in home.path.iterdir():
        if path != home.run and (not path.is_dir() or path.is_symlink() or any(path.iterdir())):
            return False
    return True


def restore(home: Home, archive: Archive, *, clock: Clock, paused: bool = False) -> PutBack:
    """Put the office of a backup in the home's place. Blocks.

    AlreadyRunning: an office runs there. BadBackup, BackupError: the home is as it was.
    """
    with _refusals(home), _alone(home), _staging(home) as staging:
        _unpack(archive, staging)
        kept = _keep_secrets(home, archive.manifest, staging)
        done = _make_ready(Home(staging), archive, clock, paused=paused)
        os.sync()
        aside = _take_place(staging, home)
    return PutBack(manifest=archive.manifest, restored=done, aside=aside, kept=kept)


def _unpack(archive: Archive, staging: Path) -> None:
    manifest = archive.manifest
    disk = os.statvfs(staging)
    needed = sum(member.bytes for member in manifest.members.values()) + SPARE_BYTES
    if disk.f_bavail * disk.f_frsize < needed:
        raise BackupError(what="Putting the office back", reason=f"it needs {needed} bytes, and the disk has fewer")
    for folder in sorted(manifest.folders):
        (staging / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, member in manifest.members.items():
        path = staging / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, _NEW, member.mode | 0o600)
        try:
            archive.unpack(name, handle)
            os.utime(handle, ns=(member.mtime, member.mtime))
        finally:
            os.close(handle)
    # the last: nothing was written by way of one
    for name, target in manifest.links.items():
        path = staging / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            path.symlink_to(target)
        except FileExistsError:
            raise archive.refuse(f"{name[:80]!r} in it is two things at once") from None
    found = look_at(staging / "office.db")
    if found.head != manifest.seq or found.schema != manifest.schema:
        raise archive.refuse("its store is not the one of its manifest")


def _keep_secrets(home: Home, manifest: Manifest, staging: Path) -> tuple[str, ...]:
    """Keys are not in most backups: those of the office in whose place it comes go on to be its own."""
    kept = []
    for name in SECRET:
        path = home.path / name
        if name not in manifest.members and path.is_file() and not path.is_symlink():
            handle = os.open(staging / name, _NEW, 0o600)
            with os.fdopen(handle, "wb") as target, path.open("rb") as source:
                shutil.copyfileobj(source, target)
            kept.append(name)
    return tuple(kept)


def _make_ready(home: Home, archive: Archive, clock: Clock, *, paused: bool) -> Restored:
    """The store of the new home: brought to this version, and told that it was put back."""
    home.prepare()
    manifest = archive.manifest

    async def ready() -> Restored:
        store = Store(home.office_db, clock=clock)
        try:
            if paused:
                await store.pause_office()
            return await store.restored(
                lineage=secrets.randbits(62) | 1,
                made_at=manifest.made_at,
                made_by=manifest.made_by,
                desks=_desks(home),
                rule_of=_rules(home),
                lake=manifest.lake,
            )
        finally:
            store.close()

    return asyncio.run(ready())


def _rules(home: Home) -> Mapping[str, str]:
    """What each channel does with what may have been sent. What is fetched waits to be fetched: whoever has it already
    knows it by its number."""
    try:
        known = accounts(load_settings(home))
    except SettingsError:
        # whoever opens the office is told; until then nothing is sent without a person's word
        known = accounts(Settings())
    return {line: "resend" if account.channel.fetched else account.rule for line, account in known.items()}


def _desks(home: Home) -> Mapping[str, tuple[str, int] | None]:
    """How far each desk's file reaches; a file that has to be mended first, or is refused, is not looked into."""
    found: dict[str, tuple[str, int] | None] = {}
    for folder in sorted(home.sessions.glob("*/*")):
        if (folder / "out" / "outbound.db").exists():
            try:
                found[folder.name] = HostMailbox(folder, session=folder.name, agent=folder.parent.name).reach()
            except ManyDesksError:
                found[folder.name] = None
    return found


def _take_place(staging: Path, home: Home) -> Path | None:
    """From here on the folder is no staging any more: whatever has its name is an office, and is never removed."""
    (staging / UNFINISHED).unlink()
    aside = _free_name(home)
    if swap(staging, home.path):
        staging.rename(aside)
    else:
        home.path.rename(aside)
        try:
            staging.rename(home.path)
        except OSError:
            aside.rename(home.path)
            raise
    _sync(home.path.parent)
    if not is_empty(Home(aside)):
        return aside
    shutil.rmtree(aside, ignore_errors=True)
    return None


def _free_name(home: Home) -> Path:
    number = 1
    while os.path.lexists(aside := home.path.with_name(f"{home.path.name}.before-{number}")):
        number += 1
    return aside


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[None]:
    """No office runs there, and none begins. The locks lie in the home, and are moved aside with it."""
    new = not os.path.lexists(home.path)
    home.prepare()
    try:
        with host_locks(home):
            yield
    except BaseException:
        if new and is_empty(home):
            shutil.rmtree(home.path, ignore_errors=True)
        raise


@contextlib.contextmanager
def _staging(home: Home) -> Iterator[Path]:
    """A folder beside the home. What killed restores left there goes, or, if it is an old home, gets its name."""
    start = f".{home.path.name}.restore-"
    for old in home.path.parent.glob(f"{start}*"):
        with contextlib.suppress(OSError), held(old):
            if not _discard(old):
                old.rename(_free_name(home))
    staging = home.path.with_name(f"{start}{secrets.token_hex(8)}")
    staging.mkdir(mode=0o700)
    with held(staging):
        try:
            (staging / UNFINISHED).touch(mode=0o600)
            yield staging
        finally:
            _discard(staging)


def _discard(staging: Path) -> bool:
    """Remove a folder that a restore has not finished; False: it is something else. The mark goes last."""
    mark = staging / UNFINISHED
    if not mark.exists():
        return False
    for path in staging.iterdir():
        if path != mark:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    mark.unlink()
    with contextlib.suppress(OSError):
        staging.rmdir()
    return True


def _sync(folder: Path) -> None:
    handle = os.open(folder, walk.FOLDER & ~os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _refusals(home: Home) -> Iterator[None]:
    try:
        yield
    except HomeError as error:
        raise BackupError(what="Putting the office back", reason=str(error).rstrip(".")) from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise BackupError(what=f"Putting the office back to {home.path}", reason=reason_of(error) + where) from error
