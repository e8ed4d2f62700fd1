"""The sandbox for Linux: namespaces of its own for files, processes, users and the network, made by `bwrap`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from subprocess import DEVNULL, PIPE

from manydesks.desk.sandboxes import cgroup, profile, seccomp
from manydesks.desk.sandboxes.base import Descriptor, Health, Plan, require_main_thread
from manydesks.desk.sandboxes.confined import Confined
from manydesks.domain.errors import SandboxError

#: making an empty sandbox takes milliseconds; a machine that hangs must not hang us
CHECK_SECONDS = 20.0

#: Root inside is the same root to the file system, so it could change the machine's own devices (`chmod 0 /dev/null`).
#: Through a read-only mount it cannot, and bwrap hands that on. Standard streams are opened anew for the same reason.
_DEVICES_READ_ONLY = '"$0" --bind /dev /dev && "$0" -o remount,bind,ro /dev && exec "$@"'

_BY_HAND = (
    "Until then agents that run programs do not start, unless they may do all that you can: `manydesks agent edit ID "
    '--sandbox none`, or `kind = "none"` under `[sandbox]` in settings.toml.'
)
#: words of bwrap, and what they mean; the first that fits
_ADVICE = (
    ("uid map", "The machine's security rules (AppArmor, on Ubuntu) keep bwrap from making user namespaces: allow it."),
    ("No permissions to create", "User namespaces are switched off: see sysctl user.max_user_namespaces."),
    ("mount proc", "A container may not mount /proc: run the office outside of it, or give it an unmasked /proc."),
    ("not permitted", "The office runs where namespaces are not allowed, in a container perhaps."),
)
_FIRST = re.compile(rb'"child-pid": *(\d+)')


class Bubblewrap:
    """As `Sandbox`."""

    async def check(self) -> Health:
        means = cgroup.find_means().why
        if sys.platform != "linux":
            return Health(works=False, why="bubblewrap is for Linux only.", advice=_BY_HAND, limits=means)
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            advice = f"Install the package bubblewrap (`apt-get install bubblewrap` on Debian and Ubuntu). {_BY_HAND}"
            return Health(works=False, why="There is no bwrap on the PATH.", advice=advice, limits=means)
        options = [*profile.NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
        argv = [*_outer(stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE), bwrap, *options, "--", "/bin/sh", "-c", ":"]
        said = await asyncio.to_thread(_complaint, argv)
        if said is not None:
            hint = next((f"{advice} " for words, advice in _ADVICE if words in said), "")
            why = f"bwrap cannot make a sandbox here: {said}"
            return Health(works=False, why=why, advice=hint + _BY_HAND, limits=means)
        why = "A sandbox was made and left again."
        if platform.machine() not in seccomp.MACHINES:
            why += f" System calls are not filtered on {platform.machine()}."
        root = "The office runs as root: an ordinary user is safer." if os.geteuid() == 0 else ""
        return Health(works=True, why=why, advice=root, limits=means)

    async def start(
        self, plan: Plan, *, stdin: int = DEVNULL, stdout: int = DEVNULL, stderr: int = DEVNULL
    ) -> Confined:
        require_main_thread()
        plan.check()
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise SandboxError(reason="there is no bwrap on the PATH; install the package bubblewrap")
        built = profile.build(plan, no_nested_users="--disable-userns" in await asyncio.to_thread(_help, bwrap))
        parent = cgroup.find_means().cgroup
        with _Handed() as handed:
            options = [*built.options]
            for place, content in built.files.items():
                options += ["--ro-bind-data", handed.content(content), place]
            if (rules := seccomp.program(platform.machine())) is not None:
                options += ["--seccomp", handed.content(rules)]
            options += ["--info-fd", handed.writer(), "--block-fd", handed.reader(), *built.closing]
            # not as arguments: a program inside can read those of its first process
            listed = handed.content(b"".join(os.fsencode(option) + b"\0" for option in options))
            argv = [*_outer(stdin=stdin, stdout=stdout, stderr=stderr), bwrap, "--args", listed, "--", *plan.argv]
            group: cgroup.Group | None = None
            try:
                if parent is not None:
                    group = cgroup.Group.create(parent, plan.mark, plan.limits)
                process = await asyncio.create_subprocess_exec(
                    *(group.entering(argv) if group else argv),
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd="/",
                    # bwrap's own too: a program inside can read the environment of its first process
                    env=plan.environment(),
                    pass_fds=handed.theirs,
                    start_new_session=True,
                )
            except OSError as error:
                if group is not None:
                    group.remove()
                raise SandboxError(reason=f"bwrap cannot be started, {error.strerror}") from error
            try:
                return await self._begin(plan, process, handed, group)
            except BaseException:
                # without our word the program has not begun; the rest dies with its parent
                if process.returncode is None:
                    process.kill()
                if group is not None:
                    group.remove()
                raise

    async def _begin(
        self, plan: Plan, process: asyncio.subprocess.Process, handed: _Handed, group: cgroup.Group | None
    ) -> Confined:
        handed.close_theirs()
        first = await asyncio.to_thread(handed.first_process)
        if first is None:
            said = (await process.stderr.read(2000)).decode(errors="replace").strip() if process.stderr else ""
            reason = said or f"it ended with {await process.wait()}; `stderr` would have said why"
            raise SandboxError(reason=f"bwrap did not begin, {reason}")
        try:
            running = Confined(process, first, group)
            running.hold(plan.limits)
        except ProcessLookupError as error:
            raise SandboxError(reason="it ended before the program began") from error
        handed.go()
        return running


class _Handed:
    """Descriptors for bwrap: what it reads, where it says which process is the first, and our word to go on."""

    def __init__(self) -> None:
        self.theirs: list[int] = []
        self._ours: list[int] = []

    def __enter__(self) -> _Handed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_theirs()
        while self._ours:
            os.close(self._ours.pop())

    def content(self, content: bytes) -> str:
        handle = os.memfd_create("manydesks")
        self.theirs.append(handle)
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(handle, 0, os.SEEK_SET)
        return str(handle)

    def writer(self) -> str:
        read, write = os.pipe()
        self._ours.append(read)
        self.theirs.append(write)
        return str(write)

    def reader(self) -> str:
        read, write = os.pipe()
        self._ours.append(write)
        self.theirs.append(read)
        return str(read)

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def first_process(self) -> int | None:
        """Its number on the host, once bwrap says it; None if bwrap ends before. Blocks."""
        said = b""
        while b"}" not in said:
            part = os.read(self._ours[0], 4096)
            if not part:
                return None
            said += part
        found = _FIRST.search(said)
        return int(found.group(1)) if found else None

    def go(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended; waiting for it will tell
            os.write(self._ours[1], b"\n")


def _outer(*, stdin: int, stdout: int, stderr: int) -> list[str]:
    """What stands before bwrap: nothing, but for root, whose devices are made read-only first."""
    if os.geteuid() != 0:
        return []
    script = _DEVICES_READ_ONLY
    script += " </dev/null" if stdin == DEVNULL else ""
    script += " >/dev/null" if stdout == DEVNULL else ""
    script += " 2>/dev/null" if stderr == DEVNULL else ""
    unshare = [shutil.which("unshare") or "unshare", "--mount", "--propagation", "private"]
    return [*unshare, "/bin/sh", "-c", script, shutil.which("mount") or "mount"]


def _complaint(argv: list[str]) -> str | None:
    """What the command said when it failed; None if it did not."""
    try:
        done = subprocess.run(
            argv, stdin=DEVNULL, capture_output=True, text=True, timeout=CHECK_SECONDS, env={}, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"it ended with {done.returncode}"


@cache
def _help(bwrap: str) -> str:
    return subprocess.run([bwrap, "--help"], capture_output=True, text=True, timeout=CHECK_SECONDS, check=False).stdout


SANDBOX = Descriptor(
    name="bubblewrap", isolates=True, load=Bubblewrap, summary="namespaces of its own; no network, no home (Linux)"
)
