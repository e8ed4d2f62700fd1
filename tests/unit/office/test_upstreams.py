from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.desk.base import Way
from manydesks.domain.errors import SettingsError
from manydesks.office.upstreams import Doors, upstreams
from manydesks.settings.home import Home
from manydesks.settings.model import Settings, UpstreamSettings
from manydesks.settings.secrets import set_secret

LOCAL = UpstreamSettings(kind="openai", base_url="http://127.0.0.1:8080/v1")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


@pytest.fixture
def doors(home: Home) -> Doors:
    return Doors(home, Settings(upstreams={"local": LOCAL}))


def test_two_model_servers_need_no_settings() -> None:
    known = {upstream.name: upstream for upstream in upstreams(Settings())}
    assert {(u.name, u.kind, u.key) for u in known.values()} == {
        ("anthropic", "anthropic", "anthropic_api_key"),
        ("openai", "openai", "openai_api_key"),
    }
    own = UpstreamSettings(kind="anthropic", base_url="https://example.org", key="other")
    (first, _) = upstreams(Settings(upstreams={"anthropic": own}))
    assert (first.base_url, first.key) == ("https://example.org", "other")


def test_a_key_never_goes_out_in_the_clear(home: Home) -> None:
    with pytest.raises(SettingsError, match="must begin with https"):
        Doors(home, Settings(upstreams={"far": UpstreamSettings(kind="openai", base_url="http://example.org/v1")}))


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        (Way(kind="openai", upstream="local"), None),
        (Way(kind="anthropic", upstream="local"), "speaks 'openai', and the agent's provider 'anthropic'"),
        (Way(kind="openai", upstream="lokal"), "There is no model server 'lokal'; the settings name"),
        (Way(kind="anthropic", upstream="anthropic"), "`manydesks secret set anthropic_api_key` stores it"),
        (Way(kind="openai", upstream="openai", base_url="http://localhost:1"), None),
        (Way(kind="openai", upstream="openai", base_url="http://far.example"), "must begin with https"),
        (Way(kind="openai", upstream="openai", base_url="https://far.example", key="mine"), "secret set mine"),
        (Way(kind="openai", upstream="local", key="mine"), "secret set mine"),
    ],
)
def test_why_there_is_no_way(doors: Doors, way: Way, fault: str | None) -> None:
    said = doors.check(way)
    assert said is None if fault is None else fault in str(said)


def test_a_secret_counts_at_once(doors: Doors, home: Home) -> None:
    way = Way(kind="anthropic", upstream="anthropic")
    assert doors.check(way) is not None
    set_secret(home, "anthropic_api_key", "sk-test-1234")
    assert doors.check(way) is None
    assert "sk-test-1234" in doors.secrets().values()


def test_a_broken_secrets_file_is_a_reason_and_no_value_is_told(doors: Doors, home: Home) -> None:
    home.secrets_file.write_text("key = sk-oops-1234")
    home.secrets_file.chmod(0o600)
    said = doors.check(Way(kind="anthropic", upstream="anthropic"))
    assert said is not None
    assert "sk-oops" not in said
    assert doors.secrets() == {}


async def test_a_door_is_made_anew_and_taken_away(doors: Doors) -> None:
    way = Way(kind="openai", upstream="local")
    first = await doors.open("session_1", way)
    again = await doors.open("session_1", way)
    assert (first, first.kind, first.prefix) == (again, "openai", "/local")
    assert again.socket.is_socket()
    await doors.close("session_1")
    await doors.close("session_1")
    assert not again.socket.exists()
    other = await doors.open("session_2", way)
    await doors.stop()
    assert not other.socket.exists()


def test_what_a_killed_host_left_is_swept(doors: Doors, home: Home) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(home.socket("px-0123456789abcdef")))
    assert doors.sweep() == 1
    assert doors.sweep() == 0
