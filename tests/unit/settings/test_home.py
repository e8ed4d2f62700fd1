from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, HomeError
from manydesks.settings.home import SOCKET_BYTES, Home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_option_wins_over_variable_wins_over_default(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    environ = {"HOME": str(tmp_path), "MANYDESKS_HOME": "~/variable"}
    assert Home.resolve("~/option", environ) == Home(tmp_path / "option")
    assert Home.resolve(None, environ) == Home(tmp_path / "variable")
    assert Home.resolve(None, {"HOME": str(tmp_path)}) == Home(tmp_path / ".manydesks")
    assert Home.resolve(None, {"HOME": str(tmp_path), "MANYDESKS_HOME": ""}) == Home(tmp_path / ".manydesks")
    with pytest.raises(HomeError, match=r"The home '' cannot be used: it is empty; name a folder, or leave it out\."):
        Home.resolve("", environ)


def test_a_relative_or_linked_home_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path = tmp_path.resolve()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert Home.resolve("a/../b", {}).path == tmp_path / "b"
    assert Home.resolve("link", {}) == Home(tmp_path / "real")


@pytest.mark.parametrize("given", ["nul\0byte", "~nobody-of-this-name/x"])
def test_an_impossible_home_is_refused_with_a_sentence(given: str) -> None:
    with pytest.raises(HomeError, match="cannot be used: "):
        Home.resolve(given, {})


def test_the_paths_of_the_contract(tmp_path: Path) -> None:
    home = Home(tmp_path)
    names = {"office_db": "office.db", "settings_file": "settings.toml", "secrets_file": "secrets.toml"}
    folders = ("workspaces", "sessions", "files", "logs", "plugins", "lake", "run")
    for attribute, name in {**names, **{folder: folder for folder in folders}}.items():
        assert getattr(home, attribute) == tmp_path / name
    assert home.workspace("coder") == tmp_path / "workspaces/coder"
    assert home.session("coder", "s_12ab34cd") == tmp_path / "sessions/coder/s_12ab34cd"


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "../x", "a/b", "/etc", "a\0", "a\n", "Coder", "-a", "a.b", "default", "a" * 33]
)
def test_no_path_is_built_from_a_bad_agent_id(tmp_path: Path, bad: str) -> None:
    with pytest.raises(BadInput, match="is not an agent's id"):
        Home(tmp_path).workspace(bad)
    with pytest.raises(BadInput, match="is not an agent's id"):
        Home(tmp_path).session(bad, "s_12ab34cd")


@pytest.mark.parametrize("bad", ["", ".", "..", "../x", "a/b", "a\0b", "a\n", "é", "a" * 129])
def test_no_path_is_built_from_a_bad_session_id_or_socket_name(tmp_path: Path, bad: str) -> None:
    with pytest.raises(BadInput, match="is not a session's id"):
        Home(tmp_path).session("coder", bad)
    with pytest.raises(BadInput, match="is not a socket's name"):
        Home(tmp_path).socket(bad)


def test_prepare_creates_private_folders_and_can_be_repeated(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    old = os.umask(0)
    try:
        home.prepare()
    finally:
        os.umask(old)
    (home.files / "kept").write_text("x")
    home.prepare()
    folders = {path.name for path in home.path.iterdir()}
    assert folders == {"workspaces", "sessions", "files", "logs", "plugins", "lake", "run"}
    assert {mode(path) for path in (home.path, *home.path.iterdir())} == {0o700}
    assert (home.files / "kept").read_text() == "x"


def test_prepare_leaves_the_mode_of_an_existing_folder_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Home(tmp_path).prepare()
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("where", ["home", "home/run"])
def test_a_file_in_the_place_of_a_folder(tmp_path: Path, where: str) -> None:
    file = tmp_path / where
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(HomeError) as caught:
        Home(tmp_path / "home").prepare()
    assert str(file) in str(caught.value)
    assert "not a folder" in str(caught.value)
    assert file.read_text() == "mine"


def test_a_home_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError, match="a part of the path is not a folder"):
        Home(tmp_path / "file" / "home").prepare()


def test_a_new_home_on_a_read_only_disk(disk: Callable[[str], Path]) -> None:
    home = Home(disk("ro") / "home")
    with pytest.raises(HomeError) as caught:
        home.prepare()
    told = f"The home {home.path} cannot be used: {home.path} cannot be created, the file system is read-only."
    assert str(caught.value) == told


def test_a_complete_home_on_a_disk_that_became_read_only(disk: Callable[[str], Path]) -> None:
    home = Home(disk("size=1m"))
    home.prepare()
    subprocess.run(["mount", "-o", "remount,ro", str(home.path)], check=True)
    with pytest.raises(HomeError, match="cannot be written, the file system is read-only"):
        home.prepare()


def test_a_full_disk(disk: Callable[[str], Path]) -> None:
    home = Home(disk("size=1m,nr_inodes=4"))
    with pytest.raises(HomeError, match="cannot be created, the disk is full"):
        home.prepare()


@pytest.fixture
def short() -> Iterator[Path]:
    """pytest's own temporary folders have names that are long already."""
    with tempfile.TemporaryDirectory(prefix="md", dir="/tmp") as name:
        yield Path(name)


def long_home(short: Path, run_bytes: int) -> Home:
    """A home whose `run/` folder has a path of exactly this many bytes."""
    rest = run_bytes - len(os.fsencode(short)) - len("//run")
    assert rest > 0
    return Home(short / ("h" * rest))


def test_a_socket_lives_in_run_while_its_path_is_short_enough(short: Path) -> None:
    temp = short / "t"
    temp.mkdir()
    fits = long_home(short, SOCKET_BYTES - len("/office"))
    assert fits.socket("office", temp=temp) == fits.run / "office"
    assert list(temp.iterdir()) == []
    too_long = long_home(short, SOCKET_BYTES - len("/office") + 1)
    assert too_long.socket("office", temp=temp).parent.parent == temp


def test_a_long_home_gets_a_private_folder_that_every_process_finds(short: Path) -> None:
    home, other = long_home(short, 120), long_home(short, 121)
    temp = short / "t"
    temp.mkdir()
    path = home.socket("office", temp=temp)
    assert path == home.socket("office", temp=temp)
    assert path.parent != other.socket("office", temp=temp).parent
    assert path != home.socket("proxy", temp=temp)
    assert mode(path.parent) == 0o700
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def test_the_private_folder_does_not_depend_on_tmpdir(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = long_home(short, 120)
    monkeypatch.setenv("TMPDIR", str(short))
    path = home.socket("office")
    try:
        assert path.parent.parent == Path("/tmp")
    finally:
        path.parent.rmdir()


def test_a_long_socket_name_is_shortened_and_stays_distinct(short: Path) -> None:
    home = long_home(short, 120)
    (short / "t").mkdir()
    first, second = (home.socket("s" * 100 + end, temp=short / "t") for end in "ab")
    assert first != second
    assert max(len(os.fsencode(path)) for path in (first, second)) <= SOCKET_BYTES


def test_a_temporary_folder_that_is_too_long_itself(short: Path) -> None:
    temp = short / ("t" * 100)
    temp.mkdir()
    with pytest.raises(HomeError, match="choose a shorter home"):
        long_home(short, 120).socket("office", temp=temp)


def test_a_private_folder_that_is_open_to_others_is_refused(short: Path) -> None:
    home = long_home(short, 120)
    (short / "t").mkdir()
    folder = home.socket("office", temp=short / "t").parent
    folder.chmod(0o750)
    with pytest.raises(HomeError, match="is open to other users"):
        home.socket("office", temp=short / "t")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder to another user needs root")
def test_a_private_folder_of_another_user_is_refused(short: Path) -> None:
    home = long_home(short, 120)
    (short / "t").mkdir()
    folder = home.socket("office", temp=short / "t").parent
    os.chown(folder, 65534, 65534)
    with pytest.raises(HomeError, match="belongs to another user"):
        home.socket("office", temp=short / "t")


def test_a_link_in_the_place_of_the_private_folder_is_refused(short: Path) -> None:
    home = long_home(short, 120)
    (short / "t").mkdir()
    (short / "elsewhere").mkdir(mode=0o700)
    folder = home.socket("office", temp=short / "t").parent
    folder.rmdir()
    folder.symlink_to(short / "elsewhere")
    with pytest.raises(HomeError, match="must be a folder"):
        home.socket("office", temp=short / "t")


def test_importing_the_home_imports_nothing_heavy() -> None:
    heavy = "{'pydantic', 'tomlkit', 'tempfile', 'asyncio', 'apsw'}"
    code = f"import sys, manydesks.settings.home; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
