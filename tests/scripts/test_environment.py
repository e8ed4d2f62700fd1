"""The scripts in a clean clone: real environments, a real pip, and a package so small that nothing is downloaded."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "manydesks"
version = "0"
"""

# Builds a wheel by hand, since a real build backend would have to be downloaded. `manydesks` only tells its arguments.
BACKEND = """
import pathlib, sys, time, zipfile

FILES = {
    "manydesks.py": "import os, sys\\ndef main(): print('office', os.getcwd(), *sys.argv[1:])",
    "manydesks-0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: manydesks\\nVersion: 0\\nProvides-Extra: all",
    "manydesks-0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any",
    "manydesks-0.dist-info/entry_points.txt": "[console_scripts]\\nmanydesks = manydesks:main",
    "manydesks-0.dist-info/RECORD": "",
}

def build_editable(folder, config_settings=None, metadata_directory=None):
    while pathlib.Path("hang").exists():
        pathlib.Path("hanging").touch()
        time.sleep(0.01)
    if pathlib.Path("fail").exists():
        sys.exit("no wheel today")
    with open("builds", "a") as builds:
        builds.write("built\\n")
    with zipfile.ZipFile(pathlib.Path(folder) / "manydesks-0-py3-none-any.whl", "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    return "manydesks-0-py3-none-any.whl"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with the project's own scripts, at a path with a space."""
    clone = tmp_path / "my clone"
    shutil.copytree(ROOT / "scripts", clone / "scripts")
    (clone / "pyproject.toml").write_text(PYPROJECT)
    (clone / "constraints.txt").touch()
    (clone / "backend.py").write_text(BACKEND)
    return clone


def up(clone: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`scripts/up`, called from another folder."""
    done = subprocess.run(
        [clone / "scripts" / "up", *arguments], cwd=clone.parent, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def builds(clone: Path) -> int:
    """How often pip installed the package so far."""
    return (clone / "builds").read_text().count("built") if (clone / "builds").exists() else 0


def test_a_second_start_installs_nothing_and_passes_the_arguments_on(clone: Path) -> None:
    first = up(clone, "--detach", "--home", "a b")
    assert "making the virtual environment" in first.stdout
    assert first.stdout.splitlines()[-1] == f"office {clone.parent} up --detach --home a b"

    assert up(clone, "--core").stdout == f"office {clone.parent} up\n"
    assert builds(clone) == 1


def test_more_extras_are_added_and_fewer_remove_none(clone: Path) -> None:
    up(clone, "--core")
    assert "with all" in up(clone).stdout
    up(clone, "--core")
    assert builds(clone) == 2


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_are_installed(clone: Path, file: str) -> None:
    up(clone)
    with (clone / file).open("a") as end:
        end.write("# changed\n")
    assert "making the virtual environment" not in up(clone, "--core").stdout
    assert builds(clone) == 2
    assert (clone / ".venv" / "manydesks.extras").read_text() == "all\n"


def test_a_moved_clone_gets_a_new_environment(clone: Path) -> None:
    up(clone)
    moved = clone.rename(clone.with_name("moved clone"))
    assert "making the virtual environment" in up(moved).stdout
    assert str(moved) in (moved / ".venv" / "bin" / "manydesks").read_text()


def test_an_environment_without_its_python_is_made_again(clone: Path) -> None:
    up(clone)
    (clone / ".venv" / "bin" / "python").unlink()
    (clone / ".venv" / "bin" / "python").symlink_to("/nowhere/python3")
    assert "making the virtual environment" in up(clone).stdout


def test_a_failed_install_shows_what_pip_said_and_is_tried_again(clone: Path) -> None:
    (clone / "fail").touch()
    failed = up(clone, check=False)
    assert failed.returncode == 1
    assert "no wheel today" in failed.stderr
    assert "manydesks.log" in failed.stderr

    (clone / "fail").unlink()
    assert "making the virtual environment" not in up(clone).stdout


def test_a_killed_install_is_begun_afresh(clone: Path) -> None:
    (clone / "hang").touch()
    script = subprocess.Popen([clone / "scripts" / "up"], stdout=subprocess.DEVNULL, start_new_session=True)
    wait_until_hanging(clone)
    script.terminate()
    assert script.wait() == 130
    (clone / "hang").unlink()

    assert "making the virtual environment" in up(clone).stdout


def test_two_scripts_at_once_install_once(clone: Path) -> None:
    (clone / "hang").touch()
    both = [subprocess.Popen([clone / "scripts" / "up"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    wait_until_hanging(clone)
    (clone / "hang").unlink()
    said = [script.communicate()[0] for script in both]
    assert [script.returncode for script in both] == [0, 0]
    assert builds(clone) == 1
    assert sum("making the virtual environment" in text for text in said) == 1


def test_a_machine_without_python_is_told_what_is_needed(clone: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "date", "id"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    done = subprocess.run(
        [clone / "scripts" / "up"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or later" in done.stderr


def test_help_installs_nothing(clone: Path) -> None:
    assert "--core" in up(clone, "--help").stdout
    assert not (clone / ".venv").exists()


def wait_until_hanging(clone: Path) -> None:
    """Returns once pip is in the middle of its work; pytest's time limit ends the wait when it never is."""
    while not (clone / "hanging").exists():
        time.sleep(0.02)
