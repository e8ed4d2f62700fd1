from __future__ import annotations

import errno
import struct

import pytest

from manydesks.desk.sandboxes.seccomp import FAMILIES, MACHINES, program

ALLOW = 0x7FFF0000


def verdict(code: bytes, *, arch: int, number: int, argument: int = 0) -> int:
    """Runs the filter as the kernel would; the errno it answers with, 0 if it lets the call through."""
    data = {0: number, 4: arch, 16: argument}
    steps = list(struct.iter_unpack("=HBBI", code))
    accumulator = place = 0
    while True:
        operation, then, otherwise, value = steps[place]
        place += 1
        if operation == 0x20:
            accumulator = data[value]
        elif operation == 0x06:
            return 0 if value == ALLOW else value & 0xFFFF
        elif operation in (0x15, 0x35):
            holds = accumulator == value if operation == 0x15 else accumulator >= value
            place += then if holds else otherwise
        else:
            raise AssertionError(f"unknown operation {operation:#x}")


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_refused_and_what_is_not(name: str) -> None:
    machine, code = MACHINES[name], program(name)
    assert code is not None
    refused = {call: verdict(code, arch=machine.audit, number=number) for call, number in machine.refused.items()}
    assert refused.pop("keyctl") == errno.EPERM
    assert refused.pop("io_uring_setup") == errno.ENOSYS
    assert 0 not in refused.values()
    let_through = set(range(450)) - {machine.socket, *machine.refused.values()}
    assert {verdict(code, arch=machine.audit, number=number) for number in let_through} == {0}


@pytest.mark.parametrize("name", MACHINES)
def test_families_of_sockets(name: str) -> None:
    machine, code = MACHINES[name], program(name)
    assert code is not None
    allowed = [n for n in range(50) if verdict(code, arch=machine.audit, number=machine.socket, argument=n) == 0]
    assert allowed == sorted(FAMILIES.values())


def test_other_ways_to_call_are_closed() -> None:
    code = program("x86_64")
    assert code is not None
    i386, x86_64 = 0x40000003, MACHINES["x86_64"].audit
    assert verdict(code, arch=i386, number=1) == errno.ENOSYS
    assert verdict(code, arch=x86_64, number=0x40000000 + 41, argument=40) == errno.ENOSYS


def test_an_unknown_machine_has_no_filter() -> None:
    assert program("riscv64") is None
