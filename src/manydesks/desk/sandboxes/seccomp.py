"""A filter of system calls, for the doors that namespaces leave open.

Sockets of a virtual machine (`AF_VSOCK`) reach the host from any network namespace; keyrings are shared with whoever
started the sandbox; io_uring can open sockets past a filter. The rest is kernel surface that no agent needs.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from dataclasses import dataclass

#: what a socket inside may be: Unix, IPv4 and IPv6 on its own loopback, and the kernel's list of interfaces
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}

#: refused with ENOSYS, so that runtimes fall back to what they did before it existed
_ABSENT = ("io_uring_setup", "io_uring_enter", "io_uring_register")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """How the kernel names itself and its calls on one architecture."""

    audit: int
    socket: int
    refused: Mapping[str, int]


_URING = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        socket=41,
        refused={
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "perf_event_open": 298,
            "bpf": 321,
            "userfaultfd": 323,
            **_URING,
        },
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        socket=198,
        refused={
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "perf_event_open": 241,
            "bpf": 280,
            "userfaultfd": 282,
            **_URING,
        },
    ),
}

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: calls of the x32 variant carry this bit, and would slip by under other numbers
_X32 = 0x40000000


def program(machine: str) -> bytes | None:
    """The filter in the kernel's own code; None for an architecture that is not listed."""
    known = MACHINES.get(machine)
    if known is None:
        return None
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, known.audit, then=1),
        _refuse(errno.ENOSYS),  # 32-bit programs number their calls otherwise
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32, otherwise=1),
        _refuse(errno.ENOSYS),
    ]
    for name, number in known.refused.items():
        code += [
            _step(_EQUAL, number, otherwise=1),
            _refuse(errno.ENOSYS if name in _ABSENT else errno.EPERM),
        ]
    code += [_step(_EQUAL, known.socket, then=1), _step(_RETURN, _ALLOW), _step(_LOAD, _FIRST_ARGUMENT)]
    for family in FAMILIES.values():
        code += [_step(_EQUAL, family, otherwise=1), _step(_RETURN, _ALLOW)]
    return b"".join([*code, _refuse(errno.EAFNOSUPPORT)])


def _step(operation: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; a jump skips that many instructions."""
    return struct.pack("=HBBI", operation, then, otherwise, value)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)
