"""The ground of the office, looked at for `manydesks doctor`: files, store, clock, and what an earlier office left."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from manydesks.desk.furnish import office_mark
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes.tree import marked
from manydesks.domain.clock import Clock
from manydesks.domain.errors import ManyDesksError, NotAnswering, SettingsError
from manydesks.office.accounts import accounts
from manydesks.office.door import Door
from manydesks.office.finding import Finding, Level
from manydesks.office.lock import running_host
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.health import examine

LITTLE_BYTES = 1 << 30
NO_ROOM_BYTES = 100 << 20
#: a log that the writer moves into the file at a few MiB; one of this size is held up by somebody who reads for hours
LONG_LOG_BYTES = 256 << 20
#: 2025-01-01: a machine whose clock is before it has not asked for the time
FIRST_MOMENT = 1_735_689_600_000
#: how far a clock may have been moved before it is worth a word
MOVED_MS = 60_000
#: a host answers from memory; a loaded machine is allowed for
ANSWER_SECONDS = 3.0
#: looking at every page of the store takes no longer than this
EXAMINE_SECONDS = 20.0
#: written by systemd's own client when the time is right
SYNCHRONIZED = Path("/run/systemd/timesync/synchronized")


def permissions(home: Home) -> Finding:
    try:
        found = home.path.stat()
    except OSError as error:
        says = f"{home.path} is not there yet ({error.strerror})."
        return Finding(what="home", level="note", says=says, advice="`manydesks up` makes it.")
    if found.st_uid != os.geteuid():
        return Finding(what="home", level="bad", says=f"{home.path} belongs to another user.")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        says = f"{home.path} is open to other users (mode {mode:04o})."
        return Finding(what="home", level="bad", says=says, advice=f"Run `chmod 700 {shlex.quote(str(home.path))}`.")
    root = os.geteuid() == 0
    advice = "The office runs as root: an ordinary user is safer." if root else ""
    return Finding(what="home", level="note" if root else "ok", says=f"{home.path} is yours alone.", advice=advice)


def modes(home: Home) -> Iterator[Finding]:
    """What others could read if the home itself were open to them, as a backup's copy of it may be."""
    db = home.office_db
    files = (home.secrets_file, home.settings_file, home.path / "api.token", db, *_beside(db))
    folders = (home.workspaces, home.sessions, home.files, home.logs, home.plugins, home.lake, home.run)
    wrong: dict[str, list[str]] = {}
    for path in (*files, *folders):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except OSError:
            continue
        # settings hold no secret, and a person's editor may have made them
        if mode & 0o077 and not (path == home.settings_file and not mode & 0o022):
            wrong.setdefault("700" if path in folders else "600", []).append(shlex.quote(str(path)))
    for mode_wanted, paths in wrong.items():
        names = ", ".join(paths)
        says = f"Open to other users: {names}."
        yield Finding(what="files", level="bad", says=says, advice=f"Run `chmod {mode_wanted} {' '.join(paths)}`.")
    if not wrong and home.path.exists():
        yield Finding(what="files", level="ok", says="Keys, store, sessions and logs are yours alone.")


def _beside(db: Path) -> tuple[Path, ...]:
    return tuple(db.with_name(f"{db.name}{end}") for end in ("-wal", "-shm"))


def disk(home: Home) -> Finding:
    place = home.path
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    says = f"{free // (1 << 20):,} MiB are free on the disk of {place}."
    level: Level = "bad" if free < NO_ROOM_BYTES else "note" if free < LITTLE_BYTES else "ok"
    return Finding(what="disk", level=level, says=says, advice="" if level == "ok" else "Free some space.")


def store(home: Home, settings: Settings, agents: int) -> Finding:
    """Every page looked at; raises ManyDesksError if it is damaged, or not there."""
    health = examine(home.office_db, seconds=EXAMINE_SECONDS)
    durability = {"power": "survives a power cut", "crash": "survives a killed process, not a power cut"}
    size, log = (f"{max(1, n >> 20) if n else 0:,} MiB" for n in (health.bytes, health.log_bytes))
    looked = "is sound" if health.whole else f"is sound as far as {EXAMINE_SECONDS:g} s reach"
    says = (
        f"{home.office_db} {looked}: {agents} agents, {size}, {log} in its log; what is stored "
        f"{durability[settings.office.durability]}."
    )
    if health.log_bytes > LONG_LOG_BYTES:
        advice = "Something has been reading the store for hours and keeps its log from being emptied; end it."
        return Finding(what="store", level="note", says=says, advice=advice)
    return Finding(what="store", level="ok", says=says)


def clock(door: Door, now: Clock, last: int | None) -> Finding:
    """`last`: when something last happened, by the ledger."""
    moment = now.now()
    advice = "Set the machine's clock, or let it ask for the time (NTP)."
    if moment < FIRST_MOMENT:
        return Finding(what="clock", level="bad", says="The clock is before 2025.", advice=advice)
    if last is not None and moment < last - MOVED_MS:
        behind = (last - moment) // 1000
        says = f"The clock is {behind} s before the last event of the ledger: it was set back."
        return Finding(what="clock", level="bad", says=says, advice=advice)
    zone = time.strftime("%Z, UTC%z")
    kept = "is kept by NTP" if SYNCHRONIZED.exists() else "may or may not be kept by NTP, which cannot be seen here"
    says = f"The clock fits the ledger. It {kept}. The time zone is {zone}."
    moved = _moved(door, moment)
    if moved is not None and abs(moved) > MOVED_MS:
        says += (
            f" Since the office was opened it has moved by {moved // 1000:+,} s against the machine's own count of "
            "time: it was set, or the machine slept. Leases do not mind; what waits for a moment may be early or late."
        )
        return Finding(what="clock", level="note", says=says)
    return Finding(what="clock", level="ok", says=says)


def _moved(door: Door, moment: int) -> int | None:
    """How far the wall clock has gone from the clock that counts since the boot, in milliseconds; None: not known."""
    try:
        host = door.host(ANSWER_SECONDS)
    except ManyDesksError:
        return None
    if host is None or "started_at" not in host:
        return None
    return moment - int(host["started_at"]) - int(host["uptime_ms"])


def office(home: Home, door: Door) -> Iterator[Finding]:
    """The one that runs, what of the settings it has not taken, and what an earlier one left."""
    try:
        host = door.host(ANSWER_SECONDS)
    except NotAnswering as error:
        advice = "`manydesks logs` may say why; `manydesks down`, and if that does not end it `kill -9` its process."
        yield Finding(what="office", level="bad", says=str(error), advice=advice)
        return
    if host is not None:
        yield Finding(what="office", level="ok", says=f"It runs (process {host['pid']}, version {host['version']}).")
        refused = (host.get("settings") or {}).get("refused")
        if refused:
            says = f"The office goes on with its old settings. {refused}"
            yield Finding(what="settings in force", level="bad", says=says, advice="Mend the file; it is then taken.")
        return
    yield Finding(what="office", level="note", says="No office runs.", advice="`manydesks up` opens it.")
    left = marked(f"{MARK}{office_mark(home)}-*") if running_host(home) is None else set()
    if left:
        numbers = ", ".join(map(str, sorted(left)[:10]))
        says = f"Programs of desks are still there without their office: {numbers}."
        yield Finding(what="leftovers", level="note", says=says, advice="The next `manydesks up` ends them.")


def channels(door: Door, settings: Settings) -> Iterator[Finding]:
    """Each account: as the office that runs has it, or as the next one will."""
    try:
        known = accounts(settings)
    except SettingsError as error:
        yield Finding(what="channels", level="bad", says=str(error), advice="The office does not start with these.")
        return
    try:
        host = door.host(ANSWER_SECONDS)
    except NotAnswering:
        says = "Whether they are up is not known: the office does not answer."
        yield Finding(what="channels", level="note", says=says)
        return
    seen = (host or {}).get("channels")
    up, down = (set(seen["up"]), dict(seen["down"])) if seen else (set(), {})
    for line in sorted({*known, *up, *down}):
        what, off = f"channel {line}", line in known and not known[line].section.enabled
        if line in up:
            yield Finding(what=what, level="ok", says="It is up.")
        elif off:
            says = f"It is switched off (channels.{known[line].channel.name}.enabled); what is for it is held."
            yield Finding(what=what, level="note", says=says)
        elif line in down:
            advice = "It is started again by and by; what is for it is held until then."
            yield Finding(what=what, level="bad", says=_sentence(down[line]), advice=advice)
        elif seen:
            yield Finding(what=what, level="note", says="It is on its way up.")
        else:
            yield Finding(what=what, level="ok", says="It is set up, and comes up with the office.")


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
