from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from manydesks.desk.sandboxes.cgroup import Group, find_means
from manydesks.desk.sandboxes.limits import Limits


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Files as a machine shows them whose office was given a cgroup: they stand for the kernel's, which few machines
    that run tests hand out."""
    own = tmp_path / "system.slice" / "office.service"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (own / "cgroup.subtree_control").write_text("\n")
    (tmp_path / "self").write_text("0::/system.slice/office.service\n")
    return own


def why(root: Path) -> str:
    found = find_means(root, root / "self")
    assert found.cgroup is None
    assert "the office ends a desk that uses too much" in found.why
    return found.why


def test_a_cgroup_that_was_given_is_used(given: Path, tmp_path: Path) -> None:
    assert find_means(tmp_path, tmp_path / "self").cgroup == given


def test_it_is_found_again_from_the_leaf_that_the_office_moved_to(given: Path, tmp_path: Path) -> None:
    (tmp_path / "self").write_text("0::/system.slice/office.service/office\n")
    assert find_means(tmp_path, tmp_path / "self").cgroup == given


def test_no_cgroups(tmp_path: Path) -> None:
    assert "there are no cgroups" in why(tmp_path)


def test_version_1_is_not_used(given: Path, tmp_path: Path) -> None:
    (tmp_path / "self").write_text("4:memory:/\n0::/system.slice/office.service\n")
    assert "version 2 is not in charge" in why(tmp_path)


def test_missing_controllers_are_named(given: Path, tmp_path: Path) -> None:
    (given / "cgroup.controllers").write_text("cpu pids\n")
    assert "is not given memory" in why(tmp_path)


def test_a_cgroup_with_other_processes_is_left_alone(given: Path, tmp_path: Path) -> None:
    (given / "cgroup.procs").write_text(f"{os.getpid()}\n{os.getppid()}\n")
    assert "1 processes that are not the office's" in why(tmp_path)


def test_the_office_moves_to_a_leaf_and_hands_the_controllers_down(given: Path) -> None:
    (given / "office").mkdir()
    (given / "office" / "cgroup.procs").touch()
    desk = given / "desk-s_1"
    desk.mkdir()
    for name in ("memory.max", "pids.max"):
        (desk / name).touch()
    group = Group.create(given, "s/1", Limits(memory_bytes=1000, tasks=7))
    assert group.path == desk
    assert (given / "office" / "cgroup.procs").read_text() == str(os.getpid())
    assert (given / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert [(desk / name).read_text() for name in ("memory.max", "pids.max")] == ["1000", "7"]


def test_a_controller_that_is_not_there_is_an_error(given: Path) -> None:
    (given / "cgroup.subtree_control").write_text("memory pids\n")
    with pytest.raises(FileNotFoundError):
        Group.create(given, "s1", Limits())


@pytest.fixture
def real() -> Iterator[Group]:
    """A real cgroup, if this machine lets us make one; its limits need no controllers here."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        group = Group(root / f"desk-test-{os.getpid()}")
        if (root / "cgroup.procs").exists() and os.access(root, os.W_OK):
            group.path.mkdir()
            yield group
            group.remove()
            return
    pytest.skip("no cgroup can be made here (a writable cgroup version 2 is needed)")


def test_what_enters_a_group_is_ended_with_it(real: Group) -> None:
    script = "(setsid sleep 600 &) ; echo ready; sleep 600"
    with subprocess.Popen(real.entering(["/bin/sh", "-c", script]), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert str(process.pid) in (real.path / "cgroup.procs").read_text().split()
        real.kill()
        assert process.wait() == -9
    real.remove()
    assert not real.path.exists()
    real.remove()
