"""A changed settings file: not before it is whole, and told of even by a store that refused at first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import StoreFull
from manydesks.office.inforce import InForce
from manydesks.office.reload import Reload, changes
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings
from manydesks.settings.model import DispatchSettings, Settings, UpstreamSettings
from manydesks.store.reader import Reader
from manydesks.store.store import Store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    home.settings_file.write_text("[dispatch]\nbatch = 1\n")
    return home


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    store = Store(home.office_db, durability="crash")
    yield store
    store.close()


@pytest.fixture
def in_force(home: Home) -> InForce:
    return InForce(load_settings(home, {}))


def noted(home: Home) -> list[str]:
    reader = Reader(home.office_db, sockets=home.run)
    try:
        return [event["kind"] for event in reader.events(0, 100)]
    finally:
        reader.close()


async def test_a_file_is_taken_once_it_is_the_same_at_two_looks(home: Home, store: Store, in_force: InForce) -> None:
    told: list[Settings] = []
    in_force.tell(told.append)
    reload = Reload(home, in_force, {})
    assert await reload.look(store) is False
    # half of a file that means something else when it is whole
    home.settings_file.write_text("[dispatch]\nbatch = 2\n")
    assert await reload.look(store) is False
    home.settings_file.write_text("[dispatch]\nbatch = 25\n")
    assert await reload.look(store) is False
    assert in_force.settings.dispatch.batch == 1
    assert await reload.look(store) is True
    assert in_force.settings.dispatch.batch == 25
    assert [settings.dispatch.batch for settings in told] == [25]
    assert await reload.look(store) is False
    # written again with the same meaning
    os.utime(home.settings_file, ns=(1, 1))
    assert [await reload.look(store) for _ in range(3)] == [False] * 3
    assert noted(home) == ["settings_changed"]


async def test_a_store_that_refuses_is_told_later(
    home: Home, store: Store, in_force: InForce, monkeypatch: pytest.MonkeyPatch
) -> None:
    reload = Reload(home, in_force, {})

    async def full(*_: Any, **__: Any) -> None:
        raise StoreFull(path=home.office_db)

    with monkeypatch.context() as context:
        context.setattr(store, "note", full)
        home.settings_file.write_text("[dispatch]\nbatch = 2\n")
        assert await reload.look(store, at_once=True) is True
    assert in_force.settings.dispatch.batch == 2
    assert noted(home) == []
    await reload.look(store)
    assert noted(home) == ["settings_changed"]


async def test_a_variable_goes_before_the_file_also_then(home: Home, store: Store) -> None:
    environ = {"MANYDESKS_DISPATCH__BATCH": "9"}
    in_force = InForce(load_settings(home, environ))
    reload = Reload(home, in_force, environ)
    home.settings_file.write_text("[dispatch]\nbatch = 2\ndesks = 3\n")
    assert await reload.look(store, at_once=True) is True
    assert (in_force.settings.dispatch.batch, in_force.settings.dispatch.desks) == (9, 3)


async def test_nobody_is_let_in_unknown_at_the_address_that_is_listened_at(home: Home, store: Store) -> None:
    home.settings_file.write_text('[api]\nhost = "192.0.2.1"\n')
    in_force = InForce(load_settings(home, {}))
    reload = Reload(home, in_force, {})
    in_force.listening = "192.0.2.1"
    home.settings_file.write_text('[api]\nhost = "127.0.0.1"\nauth = "none"\n[dispatch]\nbatch = 2\n')
    assert await reload.look(store, at_once=True) is False
    assert (in_force.settings.api.auth, in_force.settings.dispatch.batch) == ("token", 10)
    assert reload.refused is not None
    assert 'api.auth is "none", and until its next start the office listens at 192.0.2.1' in reload.refused
    # an API that listens nowhere is opened with what counts then
    in_force.listening = None
    assert await reload.look(store, at_once=True) is True
    assert (in_force.settings.api.auth, reload.refused) == ("none", None)


async def test_a_secret_of_digits_in_a_number_is_no_secret(home: Home, store: Store, in_force: InForce) -> None:
    home.secrets_file.write_text('pin = "1048576"\n')
    home.secrets_file.chmod(0o600)
    home.settings_file.write_text('[api]\nbody_bytes = 10485760\nnames = ["h1048576.lan"]\n')
    assert await Reload(home, in_force, {}).look(store, at_once=True) is True
    reader = Reader(home.office_db, sockets=home.run)
    try:
        (event,) = reader.events(0, 100)
    finally:
        reader.close()
    after = event["data"]["after"]
    assert (after["api.body_bytes"], after["api.names"]) == (10_485_760, ["h***.lan"])


def test_changes_are_named_down_to_the_key() -> None:
    far = UpstreamSettings(kind="openai", base_url="https://example.org/v1")
    before = Settings(dispatch=DispatchSettings(provider_limits={"claude": 1}))
    after = Settings(dispatch=DispatchSettings(provider_limits={"claude": 2, "openai": 3}), upstreams={"far": far})
    assert changes(before, after) == {
        "dispatch.provider_limits.claude": (1, 2),
        "dispatch.provider_limits.openai": (None, 3),
        "upstreams.far.base_url": (None, "https://example.org/v1"),
        "upstreams.far.key": (None, ""),
        "upstreams.far.key_header": (None, ""),
        "upstreams.far.kind": (None, "openai"),
    }
    assert changes(before, before) == {}
