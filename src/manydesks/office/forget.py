"""Forgetting a message: its text leaves every file of the office that holds it, the store last.

Desks, files and logs come first: killed on the way, the message is still there to be named, and is forgotten by asking
again. Each step may be done twice. What is not covered is said: what a provider's own transcript keeps, what other
messages quote, what agents wrote into their workspaces, and the lake until its next run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from manydesks.channels.packing import ANSWER
from manydesks.desk.furnish import office_mark
from manydesks.desk.scrub import scrub
from manydesks.domain.errors import BadInput, HomeError, MailboxError, SandboxError, StoreBusy, StoreFull, UnknownAgent
from manydesks.mailbox import outbox, walk
from manydesks.mailbox import scrub as rows
from manydesks.office.files import text_path
from manydesks.office.search import holds
from manydesks.settings.home import Home, reason_of
from manydesks.store.forget import Forgetting
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: shorter lines are not looked for in logs: they would be found everywhere
LEAST_LINE = 12
#: of a text, so much of its beginning and of its end is looked for in the store's file
PIECE = 48
#: how often, and how long apart, it is tried to empty the store's log while readers come and go
TRIES, TRY_SECONDS = 50, 0.1
#: a store that is larger is not written anew while an office works
REWRITE_BYTES = 256 << 20
#: of the events that quote it, so many are named
NAMED = 5

#: ends the runners that sit without work at these sessions' desks
Dismiss = Callable[[Sequence[str]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What went, and what did not."""

    found: Forgetting
    #: texts that were emptied now; 0: all had been
    erased: int
    #: desks' files that would not let go, and went as a whole
    made_anew: tuple[str, ...]
    #: log files in which something was blotted out
    logs: tuple[str, ...]
    #: agents whose provider keeps a transcript of its own
    transcripts: tuple[str, ...]
    #: agents who began anew, and whose transcripts went
    reset: tuple[str, ...]
    #: bytes of it are in office.db still: which, and why
    left: str | None


async def forget(
    store: Store, home: Home, message: str, *, whole_trace: bool, reset: bool, dismiss: Dismiss | None = None
) -> Forgotten:
    """WrongState, UnknownMessage: nothing was changed. Any other error: ask again, and the rest is done."""
    found = await store.forgettable(message, whole_trace=whole_trace)
    if dismiss is not None:
        await dismiss([session for _, session in found.places])
    made_anew = [session for agent, session in found.places if not await _leave_desk(home, agent, session, found)]
    await asyncio.to_thread(_remove_files, home, found)
    logs = await asyncio.to_thread(_blot_logs, home, found)
    begun_anew = await _reset(store, home, found, dismiss) if reset else ()
    erased = await store.forget(message, whole_trace=whole_trace)
    left = await _empty(store, home, found, alone=dismiss is None)
    folders = {agent: home.session(agent, session) / "state" for agent, session in found.places}
    kept = [agent for agent, folder in folders.items() if agent not in begun_anew and _has_files(folder)]
    return Forgotten(
        found=found,
        erased=erased,
        made_anew=tuple(made_anew),
        logs=tuple(logs),
        transcripts=tuple(kept),
        reset=tuple(begun_anew),
        left=left,
    )


async def _leave_desk(home: Home, agent: str, session: str, found: Forgetting) -> bool:
    """The rows go from both files of a session. False: the desk's file went as a whole, as it would not let go."""
    folder = home.session(agent, session)
    if not folder.is_dir():
        return True
    await asyncio.to_thread(rows.inbound, folder, found.messages)
    await asyncio.to_thread(_leave_boxes, folder, found)
    try:
        mark = office_mark(home)
        await scrub(folder, home.workspace(agent), office=mark, runs=found.runs, messages=found.messages)
    except (MailboxError, SandboxError, BadInput) as error:
        log.warning("%s is made anew: %s", folder / "out", error, extra={"action": "outbound_removed"})
        await asyncio.to_thread(_remove_outbound, folder)
        return False
    return True


def _leave_boxes(folder: Path, found: Forgetting) -> None:
    for message in found.messages:
        try:
            with walk.folder(folder, ("in", "inbox")) as inbox:
                shutil.rmtree(message, ignore_errors=True, dir_fd=inbox)
        except BadInput:
            pass  # it never had any
    for row in found.rows:
        outbox.discard(folder, row)
    # files that were refused, and what was put away when another desk took over
    for name in ("refused", "trash", "out"):
        shutil.rmtree(folder / "host" / name, ignore_errors=True)


def _remove_outbound(folder: Path) -> None:
    """Its next runner begins a new one; what was in it has been taken."""
    try:
        with walk.folder(folder, ("out",)) as out, os.scandir(out) as entries:
            for name in [entry.name for entry in entries if "outbound.db" in entry.name]:
                if not _unlinked(name, out):
                    shutil.rmtree(name, ignore_errors=True, dir_fd=out)
    except BadInput:
        return


def _unlinked(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    return True


def _remove_files(home: Home, found: Forgetting) -> None:
    # a long answer also went out as a file, which no row names: whoever needs it again makes it again
    whole = (text_path(text, ANSWER, home.files) for text in found.texts)
    for path in (*found.files, *whole):
        try:
            (home.path / path).unlink(missing_ok=True)
            (home.path / path).parent.rmdir()
        except OSError as error:
            if (home.path / path).exists():
                raise HomeError(home=home.path, reason=f"{path} cannot be removed, {reason_of(error)}.") from error


def _blot_logs(home: Home, found: Forgetting) -> list[str]:
    """Logs hold no texts of ours, but programs at desks print what they like: the same number of bytes goes over it,
    so whoever is writing at the file's end is not disturbed."""
    lines = {line.strip() for text in (*found.texts, *found.quotes) for line in text.splitlines()}
    # as a program would print it inside of JSON, too
    lines |= {json.dumps(line, ensure_ascii=ascii)[1:-1] for line in lines for ascii in (False, True)}
    needles = sorted((line.encode() for line in lines if len(line.encode()) >= LEAST_LINE), key=len, reverse=True)
    if not needles:
        return []
    sessions = tuple(session for _, session in found.places)
    desks = home.logs / "desks"
    paths = [*_logs(home.logs, ("",)), *_logs(desks, sessions), *_logs(home.logs / "plugins", ("",))]
    return [str(path.relative_to(home.path)) for path in paths if _blot(path, needles)]


def _logs(folder: Path, starts: tuple[str, ...]) -> list[Path]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if path.name.startswith(starts) and path.is_file() and not path.is_symlink())


def _blot(path: Path, needles: Iterable[bytes]) -> bool:
    blotted = False
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        # logs are kept small
        held = file.read()
        for needle in needles:
            at = -1
            while (at := held.find(needle, at + 1)) >= 0:
                blotted = True
                os.pwrite(file.fileno(), b"*" * len(needle), at)
    return blotted


async def _reset(store: Store, home: Home, found: Forgetting, dismiss: Dismiss | None) -> tuple[str, ...]:
    """The agents begin anew, and what their providers kept of the sessions before goes."""
    agents = []
    for agent in dict.fromkeys(agent for agent, _ in found.places):
        sessions = {session for name, session in found.places if name == agent}
        with contextlib.suppress(UnknownAgent):  # one who has left has no session that goes on
            sessions |= {str(one["before"]) for one in await store.reset_agent(agent)}
        if dismiss is not None:
            await dismiss(sorted(sessions))
        for session in sessions:
            await asyncio.to_thread(_empty_folder, home.session(agent, session) / "state")
        agents.append(agent)
    return tuple(agents)


def _empty_folder(folder: Path) -> None:
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


async def _empty(store: Store, home: Home, found: Forgetting, *, alone: bool) -> str | None:
    """The bytes leave office.db and its log; None, or why some are there still."""
    if not await _empty_log(store):
        return "a reader holds the store's log; it goes with the next `forget`, or when the office closes"
    quoted = _quoted(found)
    pieces = [piece for text in (*found.texts, *found.quotes) for piece in _pieces(text)]
    try:
        if not pieces or not await asyncio.to_thread(holds, home.office_db, pieces):
            return quoted
        if await store.held_by(pieces):
            return quoted  # other messages say the same: their text is theirs
        if not alone and home.office_db.stat().st_size > REWRITE_BYTES:
            return "parts of it lie in free space of office.db; close the office and forget it again"
        await store.rewrite()
        if not await _empty_log(store):
            return "a reader holds the store's log; forget it again"
        # what was written anew has only what rows hold
        if quoted is not None or not await asyncio.to_thread(holds, home.office_db, pieces):
            return quoted
    except OSError as error:
        return str(error)
    except (StoreBusy, StoreFull) as error:
        return f"parts of it lie in free space of office.db, which cannot be written anew now ({error})"
    events = await store.events_with(pieces)
    return f"office.db has words of it in rows that are no message's ({events} of them events)"


def _quoted(found: Forgetting) -> str | None:
    """Events that quote it; they are not changed, so all that can be done is to say which."""
    if not (numbers := found.quoted_in):
        return None
    some = ", ".join(map(str, numbers[:NAMED])) + (", …" if len(numbers) > NAMED else "")
    events = "the reason in 1 event quotes" if len(numbers) == 1 else f"the reasons in {len(numbers)} events quote"
    return f"{events} it (number {some}), and events never change: they go with retention only"


async def _empty_log(store: Store) -> bool:
    for _ in range(TRIES):
        if await store.empty_log():
            return True
        await asyncio.sleep(TRY_SECONDS)
    return False


def _pieces(text: str) -> list[str]:
    """Enough of it to be told from anything else; none if it is too short for that."""
    stripped = text.strip()
    return [stripped[:PIECE], stripped[-PIECE:]] if len(stripped.encode()) >= LEAST_LINE else []
