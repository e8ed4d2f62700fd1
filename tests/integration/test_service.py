"""The office as a service, with a manager that does as systemd would: a test may not talk to the machine's own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manydesks.testing.shell import Shell

MANAGER = """\
#!{python}
import os, shlex, signal, subprocess, sys, time
from pathlib import Path
here = Path(__file__).parent
with (here / "asked").open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
words = [word for word in sys.argv[1:] if not word.startswith("-")]
pid = here / "pid"
def alive():
    try:
        return b") Z " not in Path("/proc/" + pid.read_text() + "/stat").read_bytes()
    except OSError:
        return False
def stop():
    if alive():
        os.kill(int(pid.read_text()), signal.SIGTERM)
        while alive():
            time.sleep(0.02)
if words[0] in ("restart", "disable"):
    stop()
if words[0] == "restart":
    unit = Path(os.environ["HOME"]) / ".config/systemd/user" / words[1]
    lines = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
    with open(lines["StandardOutput"].removeprefix("append:"), "ab") as log:
        child = subprocess.Popen(shlex.split(lines["ExecStart"]), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
    pid.write_text(str(child.pid))
if words[0] == "is-active":
    sys.exit(0 if alive() else 3)
"""


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (
        ("systemctl", MANAGER.format(python=sys.executable)),
        ("loginctl", "#!/bin/sh\necho 'Access denied' >&2\nexit 1\n"),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def owner(home: Path, tmp_path: Path, bin: Path) -> Iterator[Shell]:
    shell = Shell(home, {**os.environ, "HOME": str(tmp_path), "PATH": f"{bin}:{os.environ['PATH']}"})
    yield shell
    shell.run("service", "remove", "--yes")
    shell.run("down")


def test_from_install_to_remove(owner: Shell, home: Path, tmp_path: Path) -> None:
    assert "is no service" in owner.run("service", "status").stdout
    before = owner.value("restart")["pid"]
    done = owner.run("service", "install", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["pid"] != before
    assert "`sudo loginctl enable-linger ada` turns it on" in done.stderr
    unit = Path(made["file"])
    assert unit.parent == tmp_path / ".config" / "systemd" / "user"
    assert f'"--home" "{home}" "up"' in unit.read_text()
    assert owner.value("service", "status")["active"]
    assert "wrote: hello" in owner.said("send", "hello", "--wait")
    again = owner.value("restart")
    assert again["service"] == made["service"]
    assert again["pid"] != made["pid"]
    assert "starts   when you log in" in owner.said("service", "status")
    assert "--yes" in owner.refusal("service", "remove")
    assert owner.value("service", "remove", "--yes")["removed"]
    assert not unit.exists()
    assert owner.run("status").returncode == 1
    assert "There was no such service" in owner.run("service", "remove", "--yes").stderr


def test_a_manager_that_refuses_leaves_nothing_behind(owner: Shell, bin: Path, tmp_path: Path) -> None:
    (bin / "systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n")
    assert "Failed to connect to bus" in owner.refusal("service", "install")
    assert not list(tmp_path.glob(".config/systemd/user/*"))


def test_the_file_can_be_seen_first(owner: Shell, home: Path, tmp_path: Path) -> None:
    said = owner.said("service", "install", "--print")
    assert "Delegate=yes" in said
    assert not list(tmp_path.glob(".config/**/*"))
    assert not home.exists()
