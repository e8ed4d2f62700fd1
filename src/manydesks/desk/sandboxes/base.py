"""What a sandbox is: it takes a plan, starts it, and can always end everything that came of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import Protocol

from manydesks.desk.sandboxes.limits import Limits, Reading
from manydesks.desk.sandboxes.mounts import Mount
from manydesks.desk.sandboxes.tree import MARK
from manydesks.domain.errors import SandboxError

#: how long a desk may take to end in good order
GRACE_SECONDS = 5.0

#: nothing of the office's own environment is handed on, so what every program expects is said here
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to start, and what it may see. Paths are absolute, and are the same inside."""

    #: the program and its arguments; others on the machine can read them, so never a secret
    argv: tuple[str, ...]
    #: names this start among all others; its processes are found again by it
    mark: str
    #: the agent's own folder: written, and where the program begins
    workspace: Path
    #: `in/` of the session: read only
    inbox: Path
    #: `out/` of the session: written
    outbox: Path
    #: `state/` of the session: written; the program's HOME unless `env` says otherwise
    state: Path
    #: added to a small environment of the sandbox's own; nothing else is handed on. No secret belongs here
    env: Mapping[str, str] = field(default_factory=dict)
    #: the credential proxy's socket, the only way out
    proxy: Path | None = None
    #: read only as well: the provider's binary, and what else it needs that is not part of the system
    programs: tuple[Path, ...] = ()
    #: what the owner allowed besides
    mounts: tuple[Mount, ...] = ()
    #: what no desk may see whatever else is asked for: the office's home
    hidden: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def environment(self) -> dict[str, str]:
        return {**_ENVIRONMENT, "HOME": str(self.state), **self.env, MARK: self.mark}

    def check(self) -> None:
        """Raises `SandboxError` for a plan that no sandbox could carry out."""
        folders = {"workspace": self.workspace, "in": self.inbox, "out": self.outbox, "state": self.state}
        for what, path in folders.items():
            if not path.is_absolute() or not path.is_dir():
                raise SandboxError(reason=f"its {what} folder {path} does not exist")
            if path.resolve() != path:
                raise SandboxError(reason=f"its {what} folder {path} is reached through a symbolic link")
        for path in (*self.programs, *([self.proxy] if self.proxy else ())):
            if not path.is_absolute() or not path.exists():
                raise SandboxError(reason=f"{path} does not exist")
        for mount in self.mounts:
            if mount.path.resolve() != mount.path or not mount.path.exists():
                raise SandboxError(reason=f"{mount.path} is not what it was when it was allowed")
        if not self.argv or any("\0" in word for word in (*self.argv, *self.env, *self.env.values())):
            raise SandboxError(reason="its command is empty, or holds a zero byte")


@dataclass(frozen=True, kw_only=True)
class Health:
    """Whether a sandbox can be used here; sentences for people."""

    works: bool
    #: how it was found out
    why: str
    #: what to do about it; empty if there is nothing to do
    advice: str = ""
    #: who keeps the limits of a desk, and why it is that one
    limits: str = ""


class Running(Protocol):
    """A started plan."""

    #: the process to name to people; its descendants are the tree
    pid: int
    #: what it reads, if the caller asked for a pipe
    stdin: asyncio.StreamWriter | None
    #: what it prints, if the caller asked for a pipe
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader | None

    async def wait(self) -> int:
        """The exit code of the program (128 and the signal's number if a signal ended it).

        When this returns, everything that the program started has ended as well, also what left its session.
        """

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Ask the program to end (SIGTERM), and after `grace` seconds kill the whole tree; nothing of it is left then.

        Doing it again, or after the end, changes nothing. Raises `SandboxError` if the kernel cannot end a process.
        """

    def read(self) -> Reading:
        """What the tree uses now; zeros after its end."""


class Sandbox(Protocol):
    """One kind of sandbox. Holds no state of single desks."""

    async def check(self) -> Health:
        """Try it for real. Never raises for a machine that lacks something: that is what the answer says."""

    async def start(self, plan: Plan, *, stdin: int = DEVNULL, stdout: int = DEVNULL, stderr: int = DEVNULL) -> Running:
        """Start the plan; what it prints goes to descriptors of the caller, pipes preferably, or nowhere.

        Only from the main thread: a desk dies with the thread that started it. Standard input is empty unless the
        caller asks for a pipe, no other descriptor is inherited, and the office's end, by whatever cause, is the end
        of the whole tree. Raises `SandboxError` if it cannot be started. Not promised: that the program exists; then it
        ends with 1 or 127.
        """


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """How a sandbox announces itself (`SANDBOX` of its file, or an entry point)."""

    #: the word in the settings
    name: str
    #: True: it really holds; False: what runs there can do all that the office's user can
    isolates: bool
    load: Callable[[], Sandbox]
    #: one line for people
    summary: str = ""


def require_main_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise SandboxError(reason="it was started from a thread, and would die with it; start it from the main one")
