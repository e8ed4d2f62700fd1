"""The files of a service: pinned, and read by the manager itself where it is there."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, OfficeError
from manydesks.office.service.base import Plan, mark_of
from manydesks.office.service.launchd import Launchd
from manydesks.office.service.manager import plan_for, service_of
from manydesks.office.service.systemd import Systemd
from manydesks.settings.home import Home
from manydesks.settings.model import DeliverySettings, RunnerSettings, Settings

PLAN = Plan(
    home=Path("/home/ada/.manydesks"),
    command=("/opt/md/bin/python", "-P", "-m", "manydesks", "--home", "/home/ada/.manydesks", "up"),
    path="/home/ada/bin:/usr/bin",
    close_seconds=90,
)
ADA = {"HOME": "/home/ada", "PATH": "/usr/bin"}

UNIT = """\
# Written by `manydesks service install`; `manydesks service remove` takes it away.
[Unit]
Description=ManyDesks office on /home/ada/.manydesks
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart="/opt/md/bin/python" "-P" "-m" "manydesks" "--home" "/home/ada/.manydesks" "up"
Environment="PATH=/home/ada/bin:/usr/bin"
UMask=0077
StandardOutput=append:/home/ada/.manydesks/logs/host.log
StandardError=append:/home/ada/.manydesks/logs/host.log
Restart=on-failure
RestartSec=3
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=90
Delegate=yes

[Install]
WantedBy=default.target
"""


def odd(tmp_path: Path) -> Plan:
    """Every character that a unit gives a meaning to."""
    home = tmp_path / """a b%h"c\\d$HOME'é;#"""
    (home / "logs").mkdir(parents=True)
    return Plan(home=home, command=(sys.executable, "--home", str(home)), path=f"{home}:/usr/bin", close_seconds=90)


def test_the_unit() -> None:
    service = Systemd("", ADA, "ada")
    assert service.text(PLAN) == UNIT
    assert service.file == Path("/home/ada/.config/systemd/user/manydesks.service")


def test_the_agent_of_launchd() -> None:
    service = Launchd("", ADA)
    assert service.file == Path("/home/ada/Library/LaunchAgents/org.manydesks.office.plist")
    assert plistlib.loads(service.text(PLAN).encode()) == {
        "Label": "org.manydesks.office",
        "ProgramArguments": list(PLAN.command),
        "EnvironmentVariables": {"PATH": PLAN.path},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 90,
        "Umask": 0o077,
        "StandardOutPath": "/home/ada/.manydesks/logs/host.log",
        "StandardErrorPath": "/home/ada/.manydesks/logs/host.log",
    }


def verify(unit: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here to read the unit: it comes with the package systemd")
    (tmp_path / "manydesks.service").write_text(unit)
    return subprocess.run(
        ["systemd-analyze", "--user", "--man=no", "verify", str(tmp_path / "manydesks.service")],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("strange", [False, True])
def test_systemd_reads_the_unit(tmp_path: Path, strange: bool) -> None:
    plain = Plan(home=tmp_path, command=(sys.executable, "-V"), path="/usr/bin", close_seconds=90)
    plan = odd(tmp_path) if strange else plain
    done = verify(Systemd("", ADA, "ada").text(plan), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_would_say_what_is_wrong(tmp_path: Path) -> None:
    wrong = Systemd("", ADA, "ada").text(PLAN).replace("Delegate=yes", "Delegat=yes").replace("exec\n", "nonsense\n")
    done = verify(wrong, tmp_path)
    assert "Delegat" in done.stderr


def test_nothing_in_a_word_means_anything(tmp_path: Path) -> None:
    """What systemd would make of it, undone by its own rules: quotes, escapes, specifiers, variables."""
    plan = odd(tmp_path)
    line = next(line for line in Systemd("", ADA, "ada").text(plan).splitlines() if line.startswith("ExecStart="))
    words = line.removeprefix('ExecStart="').removesuffix('"').split('" "')
    undone = [word.replace("$$", "$").replace('\\"', '"').replace("\\\\", "\\").replace("%%", "%") for word in words]
    assert tuple(undone) == plan.command


@pytest.mark.parametrize("home", ["/a\nExecStartPre=/bin/evil", "/a\x1b[2J", "/\udcff"])
def test_a_path_that_would_write_lines_of_its_own_is_refused(home: str) -> None:
    with pytest.raises(BadInput, match="cannot be printed"):
        Plan(home=Path(home), command=("x",), path="/usr/bin", close_seconds=90)


def test_the_time_to_close_follows_the_settings() -> None:
    slow = Settings(runner=RunnerSettings(stop_seconds=600), delivery=DeliverySettings(timeout_seconds=60))
    assert plan_for(Home(Path("/h")), slow, ADA, ["x"]).close_seconds == 675
    assert plan_for(Home(Path("/h")), Settings(), ADA, ["x"]).close_seconds == 90


def test_each_home_has_its_own_service(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin"}
    assert mark_of(Home(tmp_path / ".manydesks"), environ) == ""
    one, two = (mark_of(Home(tmp_path / name), environ) for name in ("a", "b"))
    assert one != two
    assert Systemd(one, environ, "ada").name == f"manydesks-{one}.service"
    assert Launchd(one, environ).name == f"org.manydesks.office.{one}"
    # by the home itself, however it was named
    assert mark_of(Home(tmp_path / "a"), {**environ, "MANYDESKS_HOME": str(tmp_path / "a")}) == one


def test_a_machine_without_a_manager(tmp_path: Path) -> None:
    with pytest.raises(OfficeError, match="neither systemd nor launchd"):
        service_of(Home(tmp_path), {"PATH": str(tmp_path)}, person="ada", platform="linux")
    assert isinstance(service_of(Home(tmp_path), ADA, person="ada", platform="darwin"), Launchd)
