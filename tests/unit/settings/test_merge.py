"""Several settings at once: all or nothing, comments kept, nobody written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import SettingsError, Stale
from manydesks.settings.home import Home
from manydesks.settings.merge import merge_settings, settings_version
from manydesks.settings.model import Settings


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


def test_a_version_is_of_the_file_as_it_was_read(home: Home) -> None:
    read = settings_version(home)
    merge_settings(home, {"dispatch": {"desks": 5}}, version=read, fits=fits)
    with pytest.raises(Stale) as stale:
        merge_settings(home, {"dispatch": {"desks": 6}}, version=read, fits=fits)
    assert stale.value.details["version"] == settings_version(home)
    assert "desks = 5" in home.settings_file.read_text()
