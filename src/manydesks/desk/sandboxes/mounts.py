"""Extra folders of the machine for a desk: what the owner allows, what an agent asks for, what is never given.

The owner's list is `mounts.toml` in the home, which no desk sees. What is asked for is followed through symbolic links
first, and judged by where it really is; it appears inside under that path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from manydesks.domain.errors import BadInput, SettingsError
from manydesks.settings.document import read_document
from manydesks.settings.home import Home, reason_of

FILE = "mounts.toml"

#: names that hold keys, whatever folder they are in; compared in lower case
DENIED_NAMES = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".gcloud", "gcloud", ".kube", ".docker", ".oci", ".terraform.d"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".vault-token", ".s3cfg"),
    *(".env", ".env.*", "*.env", "*.env.*", "env.local", "env.*.local", ".envrc", "service-account*.json"),
    *("service_account*.json", "*-service-account.json", "secrets.toml", "credentials.json", ".credentials.json"),
    *("credentials.toml", "application_default_credentials.json"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *(".password-store", "keyrings", ".mozilla", ".thunderbird", "google-chrome", "chromium", ".bash_history"),
    *(".zsh_history", ".python_history", ".claude", ".claude.json", ".codex", "opencode", "gh", "docker.sock"),
)
#: these names are only keys in such a folder; elsewhere they are ordinary words
_ONLY_INSIDE = {"gcloud": ".config", "google-chrome": ".config", "chromium": ".config", "gh": ".config"} | {
    "opencode": "share",
    "keyrings": "share",
}
#: of the system: never given, nor anything in them, nor a folder that holds one of them
DENIED_PLACES = tuple(map(Path, ("/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/var/run", "/var/lib/docker")))
#: how many names of a folder are looked at for keys
MOST_NAMES = 20_000


@dataclass(frozen=True, kw_only=True)
class Mount:
    """What a sandbox makes visible."""

    #: where it really is, and where it appears
    path: Path
    writable: bool
    #: names of keys found in it, each of which is covered
    covered: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What an agent's settings ask for."""

    path: str
    write: bool = False


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """One entry of the owner's list: this folder or file, and everything in it."""

    path: Path
    #: whether an agent that asks for it may write there
    write: bool = False
    #: False: hand it out without looking through it for keys, since it holds too many names
    search: bool = True


def allow_list(home: Home) -> tuple[Allowed, ...]:
    """The owner's list; none without the file.

    Raises `SettingsError` if the file is not valid or others could write it, `HomeError` if it cannot be read.
    """
    file = home.path / FILE
    document = read_document(file)
    if document.mode is not None and document.mode & 0o022:
        raise SettingsError(reason=f"others may write {file} (mode {document.mode:04o}), run `chmod 600 {file}`.")
    entries = document.data.get("allow", [])
    if set(document.data) - {"allow"} or not isinstance(entries, list):
        raise SettingsError(reason=f"{file} holds nothing but [[allow]] tables.")
    return tuple(_entry(file, number, entry) for number, entry in enumerate(entries, 1))


def resolve(asks: Iterable[Ask], allowed: Sequence[Allowed], home: Home) -> tuple[Mount, ...]:
    """What may be mounted. Read-only unless the agent asks to write and the owner's entry says `write = true`.

    Raises `BadInput` with one sentence for the first that may not.
    """
    return tuple(_resolve(ask, allowed, home) for ask in asks)


def _resolve(ask: Ask, allowed: Sequence[Allowed], home: Home) -> Mount:
    path = _real(ask.path)
    if reason := _denied(path, home.path):
        raise BadInput(reason=f"{ask.path} is never given to a desk: {reason}.")
    entry = max(
        (entry for entry in allowed if path.is_relative_to(entry.path)), key=lambda e: len(e.path.parts), default=None
    )
    if entry is None:
        raise BadInput(reason=f"{path} is not in {home.path / FILE}; its owner can allow it there.")
    covered: tuple[Path, ...] = ()
    if entry.search and path.is_dir():
        covered = tuple(_keys(path))
    return Mount(path=path, writable=ask.write and entry.write, covered=covered)


def _real(given: str) -> Path:
    try:
        path = Path(given).expanduser()
        if not path.is_absolute():
            raise BadInput(reason=f"{given!r} is not an absolute path, nor one that begins with ~/.")
        path = path.resolve(strict=True)
        mode = path.stat().st_mode
    except OSError as error:
        raise BadInput(reason=f"{given} cannot be mounted, {reason_of(error)}.") from error
    except (RuntimeError, ValueError) as error:  # a circle of links, no home for `~`, a zero byte
        raise BadInput(reason=f"{given!r} cannot be mounted, {error}.") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise BadInput(reason=f"{given} is neither a folder nor a file.")
    return path


def _denied(path: Path, home: Path) -> str | None:
    home = home.resolve()
    if path.is_relative_to(home) or home.is_relative_to(path):
        return f"it is, holds or lies in the office's home {home}"
    person = Path.home().resolve()
    if person.is_relative_to(path):
        return f"it holds the whole of {person}"
    for place in DENIED_PLACES:
        if path.is_relative_to(place) or place.is_relative_to(path):
            return f"it is, holds or lies in {place}"
    parts = path.parts
    for number, name in enumerate(parts):
        if _is_key(name, parts[number - 1] if number else ""):
            return f"'{name}' holds keys"
    return None


def _is_key(name: str, parent: str) -> bool:
    name = name.lower()
    for pattern in DENIED_NAMES:
        if fnmatchcase(name, pattern):
            inside = _ONLY_INSIDE.get(pattern)
            return inside is None or parent.lower() == inside
    return False


def _keys(top: Path) -> Iterator[Path]:
    """Names of keys below a folder, the highest only; links are not followed, since they lead nowhere inside."""
    seen = 0
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_NAMES:
                        raise BadInput(
                            reason=f"{top} holds more than {MOST_NAMES} names, too many to look through for keys: "
                            f"ask for a smaller folder, or say search = false in its entry in {FILE}."
                        )
                    if entry.is_symlink():
                        continue
                    if _is_key(entry.name, folder.name):
                        yield Path(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except OSError as error:
            raise BadInput(reason=f"{folder} cannot be looked through for keys, {reason_of(error)}.") from error


def _entry(file: Path, number: int, entry: Any) -> Allowed:
    where = f"{file}, entry {number}"
    if not isinstance(entry, dict) or set(entry) - {"path", "write", "search"} or "path" not in entry:
        raise SettingsError(reason=f"{where}: it has a path, and may have write and search, nothing else.")
    if not isinstance(entry["path"], str) or not all(isinstance(entry.get(n, True), bool) for n in ("write", "search")):
        raise SettingsError(reason=f"{where}: path is a text, write and search are true or false.")
    path = Path(entry["path"]).expanduser()
    if not path.is_absolute():
        raise SettingsError(reason=f"{where}: {entry['path']!r} is not an absolute path, nor one that begins with ~/.")
    return Allowed(path=path.resolve(), write=entry.get("write", False), search=entry.get("search", True))
