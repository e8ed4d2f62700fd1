"""Several settings at once: all or nothing, comments kept, nobody written over."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from manydesks.domain.errors import HomeError, SettingsError, Stale
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings
from manydesks.settings.merge import merge_settings, settings_version
from manydesks.settings.model import Settings
from manydesks.settings.secrets import load_secrets


def fits(settings: Settings) -> None:
    if settings.dispatch.desks == 13:
        raise SettingsError(reason="unlucky")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "settings.toml").write_text("# mine\n[dispatch] # runs\nbatch = 3 # few\n")
    return Home(tmp_path)


def test_what_is_given_is_changed_and_the_rest_stays(home: Home) -> None:
    given = {"dispatch": {"desks": 5}, "prices": {"a": {"model": "m", "input_usd": 1, "output_usd": 2}}}
    merge_settings(home, given, version=None, fits=fits)
    text = home.settings_file.read_text()
    assert "# mine\n[dispatch] # runs\nbatch = 3 # few\ndesks = 5" in text
    assert 'model = "m"' in text
    merge_settings(home, {"dispatch": {"batch": None}, "prices": {"a": None}}, version=None, fits=fits)
    assert "batch" not in home.settings_file.read_text()
    assert "prices.a" not in home.settings_file.read_text()


@pytest.mark.parametrize("bad", [{"dispatch": {"desks": 0}}, {"dispatch": {"desks": 13}}, {"nothing": {"a": 1}}])
def test_half_a_change_is_not_made(home: Home, bad: dict[str, object]) -> None:
    before = home.settings_file.read_text()
    with pytest.raises(SettingsError):
        merge_settings(home, {"retry": {"max_attempts": 9}, **bad}, version=None, fits=fits)
    assert home.settings_file.read_text() == before


def kept(home: Home) -> list[bytes | None]:
    return [path.read_bytes() if path.exists() else None for path in (home.settings_file, home.secrets_file)]


@pytest.mark.parametrize("text", [None, '# mine\nold = "old-value"\n'])
def test_a_file_that_cannot_be_written_leaves_the_other_as_it_was(
    home: Home, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    if text is not None:
        home.secrets_file.write_text(text)
        home.secrets_file.chmod(0o600)
    before, replaced = kept(home), Path.replace

    def busy(self: Path, target: Path) -> Path:
        if target.name == home.settings_file.name:  # as one that is mounted by itself is
            raise OSError(errno.EBUSY, "busy")
        return replaced(self, target)

    change, secrets = {"dispatch": {"desks": 5}}, {"new": "new-value", "old": None}
    monkeypatch.setattr(Path, "replace", busy)
    with pytest.raises(HomeError):
        merge_settings(home, change, version=None, fits=fits, secrets=secrets)
    assert kept(home) == before


@pytest.mark.parametrize("secrets", [{"new": "new-value"}, {}])
def test_secrets_that_cannot_be_read_are_found_before_anything_is_written(home: Home, secrets: dict[str, str]) -> None:
    home.secrets_file.write_text('old = "old-value"\n')
    home.secrets_file.chmod(0o644)
    before = kept(home)
    with pytest.raises(SettingsError, match="chmod 600"):
        merge_settings(home, {"dispatch": {"desks": 5}}, version=None, fits=fits, secrets=secrets)
    assert kept(home) == before


def test_secrets_go_with_the_settings(home: Home) -> None:
    merge_settings(home, {"dispatch": {"desks": 5}}, version=None, fits=fits, secrets={"a": "one", "b": "two"})
    assert load_settings(home, {}).dispatch.desks == 5
    assert home.secrets_file.stat().st_mode & 0o777 == 0o600
    merge_settings(home, {}, version=None, fits=fits, secrets={"a": None, "never": None})
    assert dict(load_secrets(home, {})) == {"b": "two"}
    environ = {"MANYDESKS_SECRET_C": "three"}
    with pytest.raises(SettingsError, match="MANYDESKS_SECRET_C"):
        merge_settings(home, {}, version=None, fits=fits, secrets={"b": None, "c": None}, environ=environ)
    assert dict(load_secrets(home, {})) == {"b": "two"}


def test_settings_are_judged_as_they_would_count(home: Home) -> None:
    before, environ = kept(home), {"MANYDESKS_DISPATCH__DESKS": "13"}
    with pytest.raises(SettingsError, match="unlucky"):
        merge_settings(home, {"retry": {"max_attempts": 9}}, version=None, fits=fits, environ=environ)
    assert kept(home) == before


def test_a_version_is_of_the_file_as_it_was_read(home: Home) -> None:
    read = settings_version(home)
    merge_settings(home, {"dispatch": {"desks": 5}}, version=read, fits=fits)
    with pytest.raises(Stale) as stale:
        merge_settings(home, {"dispatch": {"desks": 6}}, version=read, fits=fits)
    assert stale.value.details["version"] == settings_version(home)
    assert "desks = 5" in home.settings_file.read_text()
