"""What a bubblewrap desk sees, as options of `bwrap`. Pure but for looking at which paths exist."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import manydesks
from manydesks.desk.sandboxes.base import Plan
from manydesks.desk.sandboxes.mounts import Mount
from manydesks.domain.errors import SandboxError

#: who the program thinks it is; nothing of the machine's own users shows
UID, GID, HOSTNAME = 1000, 1000, "desk"

NAMESPACES = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--uid", str(UID), "--gid", str(GID), "--hostname", HOSTNAME),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)

_SYSTEM = ("/usr", "/nix/store", "/gnu/store")
_SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: parts of /etc that programs look for; never the folders beside them that hold private keys
_ETC = (
    *("ld.so.cache", "alternatives", "localtime", "mime.types", "ca-certificates", "crypto-policies"),
    *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted"),
)
#: for root, files in /proc obey the user's number and not capabilities: inside as outside, it could set the program
#: that the kernel runs at a crash. bwrap's own cover leaves `sys` open (seen with 0.8.0)
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "driver", "pressure", "mtrr", "dynamic_debug")
_PROC_HIDDEN = ("kcore", "keys", "key-users", "timer_list", "sched_debug", "latency_stats", "acpi", "scsi", "asound")


@dataclass(frozen=True, kw_only=True)
class Profile:
    #: options, in the order in which bwrap carries them out
    options: tuple[str, ...]
    #: files made for the desk: path inside and content
    files: Mapping[str, bytes]
    #: options that come after the files
    closing: tuple[str, ...]


def build(plan: Plan, *, no_nested_users: bool) -> Profile:
    """Raises `SandboxError` if something that every desk sees would show what is hidden."""
    seen = tuple(_once((*interpreter(), *plan.programs)))
    for path in (*map(Path, _SYSTEM), *seen, *(mount.path for mount in plan.mounts)):
        for hidden in plan.hidden:
            if hidden.resolve().is_relative_to(path.resolve()):
                raise SandboxError(reason=f"{hidden} lies in {path}, which desks can see; move it elsewhere")
    options = [*NAMESPACES, *(["--disable-userns"] if no_nested_users else [])]
    options += _system() + _proc()
    size = ("--perms", "1777", "--size", str(plan.limits.tmp_bytes), "--tmpfs")
    options += ["--dev", "/dev", *size, "/dev/shm", *size, "/tmp"]
    binds: list[tuple[Path, bool]] = [(path, False) for path in seen]
    binds += [(mount.path, mount.writable) for mount in plan.mounts]
    binds += [(plan.workspace, True), (plan.inbox, False), (plan.outbox, True), (plan.state, True)]
    binds += [(plan.proxy, False)] if plan.proxy else []
    for path, writable in sorted(binds, key=lambda bind: len(bind[0].parts)):  # a folder before what lies in it
        options += ["--bind" if writable else "--ro-bind", str(path), str(path)]
    for mount in plan.mounts:
        options += _covers(mount)
    # both are memory without a bound, and the desk's own
    closing = ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(plan.workspace))
    return Profile(options=tuple(options), files=_identity(plan), closing=closing)


def interpreter() -> tuple[Path, ...]:
    """This Python, its packages, and this package where it is installed from a clone."""
    prefixes = {Path(prefix) for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)}
    prefixes |= {prefix.resolve() for prefix in prefixes}
    prefixes.add(Path(sys.executable).resolve().parent.parent)
    package = Path(manydesks.__file__).parent
    return tuple(
        path
        for path in sorted({*prefixes, package, package.resolve()})
        # what the system has is there anyway; a Python of / or /usr must not bring in all of it again, in another order
        if path.exists() and path != Path("/") and not any(path.is_relative_to(system) for system in _SYSTEM)
    )


def _system() -> list[str]:
    options: list[str] = []
    for place in _SYSTEM:
        if Path(place).is_dir():
            options += ["--ro-bind", place, place]
    for place in _SYSTEM_LINKS:
        if Path(place).is_symlink():
            options += ["--symlink", str(Path(place).readlink()), place]
        elif Path(place).is_dir():
            options += ["--ro-bind", place, place]
    for name in _ETC:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return options


def _proc() -> list[str]:
    options = ["--proc", "/proc"]
    for name in _PROC_READ_ONLY:
        if Path("/proc", name).exists():
            options += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
    for name in _PROC_HIDDEN:
        options += _cover(Path("/proc", name))
    return options


def _covers(mount: Mount) -> list[str]:
    return [option for path in mount.covered for option in _cover(path)]


def _cover(path: Path) -> list[str]:
    """Nothing in its place: a device that cannot be opened for a file, an empty folder for a folder."""
    if path.is_dir():
        return ["--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", "/dev/null", str(path)] if path.exists() else []


def _identity(plan: Plan) -> dict[str, bytes]:
    user = f"desk:x:{UID}:{GID}::{plan.environment()['HOME']}:/bin/sh\n"
    return {
        "/etc/passwd": os.fsencode(user),
        "/etc/group": f"desk:x:{GID}:\n".encode(),
        "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n".encode(),
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
    }


def _once(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))
