"""Nobody but the owner reads anything of an office."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manydesks.settings.home import Home
from manydesks.settings.secrets import set_secret
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


@pytest.fixture
def _generous_umask() -> Iterator[None]:
    """The worst case: whatever is made without a thought is open to everyone."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(home: Path) -> Iterator[tuple[Path, int, bool]]:
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            path = Path(folder, name)
            found = path.lstat()
            yield path.relative_to(home), stat.S_IMODE(found.st_mode), stat.S_ISDIR(found.st_mode)


@pytest.mark.usefixtures("_generous_umask")
def test_files_and_sockets_are_0600_and_folders_0700(
    shell: Shell, home: Path, make_office: Callable[..., OfficeProcess]
) -> None:
    shell.said("send", "before the first up")
    set_secret(Home(home), "openai_key", "sk-not-a-key")
    office = make_office()
    office.start()
    office.ask("hello")
    found = {str(path): mode for path, mode, _ in modes(home)}
    assert {
        "office.db",
        "office.db-wal",
        "run/host.lock",
        "run/office.lock",
        "run/office.sock",
        "secrets.toml",
    } <= found.keys()
    open_to_others = [
        f"{path} {mode:o}"
        for path, mode, is_folder in modes(home)
        if mode != (0o700 if is_folder else 0o600) and path.name != "host.log"
    ]
    assert open_to_others == []
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.usefixtures("_generous_umask")
def test_the_log_of_a_detached_office_is_the_owners(shell: Shell, home: Path) -> None:
    shell.said("up", "--detach")
    assert stat.S_IMODE((home / "logs" / "host.log").stat().st_mode) == 0o600


@pytest.mark.usefixtures("_generous_umask")
def test_the_socket_of_whoever_waits_is_the_owners(home: Path, office: OfficeProcess) -> None:
    reader = office.door.reader()
    reader.wait(0)
    (ear,) = home.glob("run/ear-*")
    mode = stat.S_IMODE(ear.lstat().st_mode)
    reader.close()
    assert f"{mode:o}" == "600"
