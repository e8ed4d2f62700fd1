"""A home with plugins of the test's own, and the hooks of an office there."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from manydesks.office.hooks.roster import Hooks
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.settings.model import HooksSettings, LimitsSettings, Settings
from manydesks.store.reader import Reader
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

#: enough for a busy machine to answer, little enough to wait for
QUICK = 1.0

Write = Callable[[str, str], Path]
Failed = Callable[[], list[dict[str, object]]]


@pytest.fixture
def the_home(home: Path) -> Home:
    found = Home(home)
    found.prepare()
    return found


@pytest.fixture
def plugin(the_home: Home) -> Write:
    """Writes a plugin; everything of the contract is imported for it."""

    def write(name: str, code: str) -> Path:
        path = the_home.plugins / f"{name}.py"
        path.write_text("from manydesks.office.hooks import *\n" + textwrap.dedent(code))
        path.chmod(0o600)
        return path

    return write


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(the_home: Home, clock: ManualClock) -> AsyncIterator[Store]:
    store = Store(the_home.office_db, durability="crash", clock=clock)
    yield store
    store.close()


@pytest.fixture
def in_force() -> InForce:
    return InForce(Settings(hooks=HooksSettings(timeout_seconds=QUICK), limits=LimitsSettings(message_bytes=1024)))


@pytest.fixture
async def hooks(store: Store, the_home: Home, in_force: InForce, clock: ManualClock) -> AsyncIterator[Hooks]:
    hooks = Hooks(store, the_home, in_force, clock)
    yield hooks
    await hooks.stop()


@pytest.fixture
def failed(the_home: Home, store: Store) -> Failed:
    """The events of failures, as the ledger has them."""

    def look() -> list[dict[str, object]]:
        reader = Reader(the_home.office_db, sockets=the_home.run)
        try:
            return [event["data"] for event in reader.events(0, 100, ["hook_failed"])]
        finally:
            reader.close()

    return look
