from __future__ import annotations

import os
from pathlib import Path

import pytest

from manydesks.desk.sandboxes import mounts
from manydesks.desk.sandboxes.mounts import Allowed, Ask, Mount, allow_list, resolve
from manydesks.domain.errors import BadInput, SettingsError
from manydesks.settings.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path.resolve() / "home")
    home.prepare()
    return home


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of the person's, all of which is allowed."""
    folder = tmp_path.resolve() / "data"
    (folder / "reports").mkdir(parents=True)
    return folder


def given(home: Home, ask: str | Path, *allowed: Allowed, write: bool = False) -> Mount:
    return resolve([Ask(path=str(ask), write=write)], allowed, home)[0]


def refusal(home: Home, ask: str | Path, *allowed: Allowed) -> str:
    with pytest.raises(BadInput) as caught:
        given(home, ask, *allowed)
    assert str(caught.value).endswith(".")
    return str(caught.value)


@pytest.mark.parametrize(("owner", "agent", "both"), [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1)])
def test_read_only_unless_both_sides_say_otherwise(home: Home, data: Path, owner: int, agent: int, both: int) -> None:
    found = given(home, data / "reports", Allowed(path=data, write=bool(owner)), write=bool(agent))
    assert found == Mount(path=data / "reports", writable=bool(both))


def test_the_nearest_entry_decides(home: Home, data: Path) -> None:
    entries = (Allowed(path=data, write=True), Allowed(path=data / "reports"))
    assert not given(home, data / "reports", *entries, write=True).writable
    assert given(home, data, *entries, write=True).writable


def test_what_is_not_in_the_list_is_refused(home: Home, data: Path, tmp_path: Path) -> None:
    (tmp_path / "data2").mkdir()
    said = refusal(home, tmp_path / "data2", Allowed(path=data))
    assert "is not in" in said
    assert "mounts.toml" in said
    refusal(home, data)


def test_a_link_is_judged_by_where_it_leads(home: Home, data: Path, tmp_path: Path) -> None:
    (data / "out").symlink_to(tmp_path)
    (data / "home").symlink_to(home.path)
    (data / "in").symlink_to(data / "reports")
    (data / "keys").symlink_to(data / ".ssh")
    (data / ".ssh").mkdir()
    assert "the office's home" in refusal(home, data / "out", Allowed(path=data))
    assert "the office's home" in refusal(home, data / "home" / "workspaces", Allowed(path=data))
    assert "'.ssh' holds keys" in refusal(home, data / "keys", Allowed(path=data))
    assert given(home, data / "in", Allowed(path=data)).path == data / "reports"


@pytest.mark.parametrize(
    "name", [".ssh", ".SSH", ".aws/cli", ".netrc", ".env", ".env.production", "prod.env", "server.pem", "id_ed25519",
             ".config/gh/hosts.yml", ".local/share/keyrings", ".kube/config", ".docker", "secrets.toml",
             "service-account.json", "service-account-prod.json", "env.local", "prod.env.local", "app.env.bak"]
)  # fmt: skip
def test_keys_are_never_given(home: Home, data: Path, name: str) -> None:
    path = data / name
    path.mkdir(parents=True)
    assert "holds keys" in refusal(home, path, Allowed(path=path))


@pytest.mark.parametrize("name", ["gh", "environment", "keyrings.txt", "chromium", "key", "ssh", "env", "service.json"])
def test_ordinary_names_are_given(home: Home, data: Path, name: str) -> None:
    (data / name).mkdir()
    assert given(home, data / name, Allowed(path=data)).path == data / name


@pytest.mark.parametrize(
    "place", ["/", "/etc", "/etc/ssl", "/proc/self", "/dev", "/sys", "/run", "/var/run", "/home/.."]
)
def test_places_of_the_system_are_never_given(home: Home, place: str) -> None:
    assert "is never given to a desk" in refusal(home, place, Allowed(path=Path("/")))


def test_the_persons_whole_home_is_never_given(home: Home, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(data))
    assert "holds the whole of" in refusal(home, "~", Allowed(path=data))
    assert "holds the whole of" in refusal(home, "~/reports/..", Allowed(path=data))
    assert given(home, "~/reports", Allowed(path=data)).path == data / "reports"


@pytest.mark.parametrize("part", ["", "workspaces", "workspaces/coder", "secrets.toml", "run", ".."])
def test_nothing_of_the_offices_home_is_given(home: Home, part: str) -> None:
    home.workspace("coder").mkdir()
    home.secrets_file.touch()
    assert "the office's home" in refusal(home, home.path / part, Allowed(path=Path("/")))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ("reports", "not an absolute path"),
        ("", "not an absolute path"),
        ("/no/such", "cannot be mounted"),
        ("/a\0b", "mounted"),
    ],
)
def test_what_is_no_path_is_refused(home: Home, ask: str, said: str) -> None:
    assert said in refusal(home, ask, Allowed(path=Path("/")))


def test_only_folders_and_files_are_given(home: Home, data: Path) -> None:
    os.mkfifo(data / "pipe")
    (data / "circle").symlink_to(data / "circle")
    (data / "file").touch()
    assert "neither a folder nor a file" in refusal(home, data / "pipe", Allowed(path=data))
    assert "cannot be mounted" in refusal(home, data / "circle", Allowed(path=data))
    assert given(home, data / "file", Allowed(path=data)).path == data / "file"


def test_keys_inside_are_covered_the_highest_only(home: Home, data: Path) -> None:
    for name in ("reports/.env", "reports/deep/er/tls.key", ".git-credentials", ".aws/credentials.json"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).touch()
    (data / "reports" / "secrets.toml").symlink_to(home.secrets_file)
    covered = given(home, data, Allowed(path=data)).covered
    names = sorted(str(path.relative_to(data)) for path in covered)
    assert names == [".aws", ".git-credentials", "reports/.env", "reports/deep/er/tls.key"]


def test_a_folder_that_is_too_large_to_look_through_needs_the_owners_word(
    home: Home, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "MOST_NAMES", 3)
    for number in range(4):
        (data / f"{number}").touch()
    assert "search = false" in refusal(home, data, Allowed(path=data))
    assert given(home, data, Allowed(path=data, search=False)).covered == ()


def test_the_list_is_read_from_the_home(home: Home, data: Path) -> None:
    assert allow_list(home) == ()
    file = home.path / "mounts.toml"
    file.write_text(f'[[allow]]\npath = "{data}"\n[[allow]]\npath = "/srv"\nwrite = true\nsearch = false\n')
    file.chmod(0o600)
    assert allow_list(home) == (Allowed(path=data), Allowed(path=Path("/srv"), write=True, search=False))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("allow = 1", "nothing but"),
        ("deny = []", "nothing but"),
        ("[[allow]]", "entry 1: it has a path"),
        ('[[allow]]\npath = "/srv"\nwrite = "yes"', "true or false"),
        ('[[allow]]\npath = "/srv"\nwrit = true', "nothing else"),
        ('[[allow]]\npath = "srv"', "not an absolute path"),
        ("[[allow]]\npath = 1", "path is a text"),
        ("[[allow", "line 1"),
    ],
)
def test_a_list_that_is_not_valid_is_refused(home: Home, text: str, said: str) -> None:
    (home.path / "mounts.toml").write_text(text)
    (home.path / "mounts.toml").chmod(0o600)
    with pytest.raises(SettingsError, match=said):
        allow_list(home)


def test_a_list_that_others_could_write_is_refused(home: Home) -> None:
    (home.path / "mounts.toml").touch()
    (home.path / "mounts.toml").chmod(0o620)
    with pytest.raises(SettingsError, match="chmod 600"):
        allow_list(home)
