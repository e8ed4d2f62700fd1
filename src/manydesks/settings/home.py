"""The home folder: where everything of one office lives, and the only place where its paths are spelled out."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.errors import BadInput, HomeError
from manydesks.domain.ids import is_name, is_public_id

#: the limit of a Unix socket's path is 104 bytes (macOS) or 108 (Linux), with the closing zero byte
SOCKET_BYTES = 100

_REASONS = {
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission is denied",
    errno.EPERM: "the operation is not permitted",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EEXIST: "something that is not a folder has this name",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "its symbolic links go round in a circle",
    errno.ENAMETOOLONG: "the path is too long",
}


def reason_of(error: OSError) -> str:
    """The operating system's refusal in words that fit into a sentence."""
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


@dataclass(frozen=True)
class Home:
    """The folder of one office. A value: nothing is created or read before `prepare` or `socket`."""

    #: absolute; `Home.resolve` makes it so
    path: Path

    @classmethod
    def resolve(cls, option: str | None, environ: Mapping[str, str] = os.environ) -> Home:
        """The home a command means: its option, else `MANYDESKS_HOME`, else `~/.manydesks`. An empty variable counts as
        not given; an empty option is a slip (`--home "$UNSET"`), and another office must not be taken for it.

        Symbolic links are followed, so that two ways to one folder give one value and the same sockets.
        """
        if option == "":
            raise HomeError(home="''", reason="it is empty; name a folder, or leave it out.")
        given = option or environ.get("MANYDESKS_HOME") or "~/.manydesks"
        try:
            return cls(_expand(given, environ).resolve())
        except OSError as error:
            raise HomeError(home=given, reason=f"{reason_of(error)}.") from error
        except (RuntimeError, ValueError) as error:  # no home to expand `~` with, a circle of links, a zero byte
            raise HomeError(home=repr(given), reason=f"{error}.") from error

    @property
    def office_db(self) -> Path:
        return self.path / "office.db"

    @property
    def settings_file(self) -> Path:
        return self.path / "settings.toml"

    @property
    def secrets_file(self) -> Path:
        return self.path / "secrets.toml"

    @property
    def token_file(self) -> Path:
        return self.path / "api.token"

    @property
    def workspaces(self) -> Path:
        return self.path / "workspaces"

    @property
    def sessions(self) -> Path:
        return self.path / "sessions"

    @property
    def files(self) -> Path:
        return self.path / "files"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def plugins(self) -> Path:
        return self.path / "plugins"

    @property
    def lake(self) -> Path:
        return self.path / "lake"

    @property
    def run(self) -> Path:
        return self.path / "run"

    def keeps(self, path: Path) -> bool:
        """Whether what is there, or would be, is the office's own; workspaces are the agents'. `path`: absolute."""
        own = (self.sessions, self.files, self.logs, self.plugins, self.lake, self.run)
        if any(path.is_relative_to(folder) for folder in own):
            return True
        # a database has further files beside it
        names = (self.office_db.name, self.token_file.name)
        return path.parent == self.path and (path.suffix == ".toml" or path.name.startswith(names))

    def workspace(self, agent: str) -> Path:
        """The agent's own folder. Raises `BadInput` for an id that could be anything but one folder name."""
        return self.workspaces / _agent(agent)

    def session(self, agent: str, session: str) -> Path:
        """The folder of a session's mailbox. Raises `BadInput` like `workspace`."""
        if not is_public_id(session):
            raise BadInput(reason=f"{session[:60]!r} is not a session's id (letters, digits, and _ . : - inside).")
        return self.sessions / _agent(agent) / session

    def prepare(self) -> None:
        """Create what is missing, each folder 0700; doing it again changes nothing.

        The mode of folders that are there already is left alone: a home may be any folder a person named.
        Raises `HomeError` if the home cannot be written.
        """
        parts = (self.workspaces, self.sessions, self.files, self.logs, self.plugins, self.lake, self.run)
        for folder in (self.path, *parts):
            try:
                folder.mkdir(mode=0o700, parents=folder == self.path, exist_ok=True)
            except OSError as error:
                raise HomeError(home=self.path, reason=f"{folder} cannot be created, {reason_of(error)}.") from error
        for folder in (self.path, self.run):
            if not os.access(folder, os.W_OK | os.X_OK):  # also false for root on a read-only file system
                code = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
                raise HomeError(home=self.path, reason=f"{folder} cannot be written, {_REASONS[code]}.")

    def socket(self, name: str, *, temp: Path | None = None) -> Path:
        """Where the Unix socket of this name lives: in `run/`, or in a private folder of `temp` if that is too long.

        Every process gets the same path, whatever its environment: `temp` is `/tmp` by default, not `TMPDIR`.
        Raises `HomeError` if the private folder is not this user's alone.
        """
        if not is_public_id(name):
            raise BadInput(reason=f"{name[:60]!r} is not a socket's name (letters, digits, and _ . : - inside).")
        if _fits(self.run / name):
            return self.run / name
        mark = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]
        folder = (temp or _temp()) / f"manydesks-{os.geteuid()}-{mark}"
        self._private(folder)
        for short in (folder / name, folder / hashlib.sha256(name.encode()).hexdigest()[:16]):
            if _fits(short):
                return short
        raise HomeError(home=self.path, reason=f"{folder} is too long for a Unix socket, choose a shorter home.")

    def _private(self, folder: Path) -> None:
        """Make the folder, or make sure that nobody else could have put something there."""
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            raise HomeError(home=self.path, reason=f"{folder} cannot be created, {reason_of(error)}.") from error
        if not stat.S_ISDIR(found.st_mode):
            raise HomeError(home=self.path, reason=f"{folder} must be a folder for sockets; remove what is there.")
        if found.st_uid != os.geteuid():
            raise HomeError(home=self.path, reason=f"{folder} belongs to another user; choose a shorter home.")
        if found.st_mode & 0o077:
            raise HomeError(home=self.path, reason=f"{folder} is open to other users; remove it and try again.")


def _expand(given: str, environ: Mapping[str, str]) -> Path:
    """`~` is the home of the environment that was handed in; `~name` is looked up."""
    own = environ.get("HOME")
    if own and (given == "~" or given.startswith("~/")):
        return Path(own + given[1:])
    return Path(given).expanduser()


def _agent(agent: str) -> str:
    if not is_name(agent):
        raise BadInput(
            reason=f"{agent[:60]!r} is not an agent's id (1 to 32 lowercase letters, digits, and _ - inside; "
            "no reserved word)."
        )
    return agent


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_BYTES


def _temp() -> Path:
    """The host and its clients may have been started with different TMPDIRs and must still meet."""
    shared = Path("/tmp")
    if shared.is_dir():
        return shared
    import tempfile  # slow to import, and needed only where /tmp does not exist

    return Path(tempfile.gettempdir())
