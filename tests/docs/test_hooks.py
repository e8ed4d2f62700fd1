"""The page on hooks: its plugins load, its tables name every field, and the example does what it says."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput
from manydesks.office.hooks import base, check, line, plugin, roster
from manydesks.office.hooks.examine import examine
from manydesks.office.hooks.roster import Hooks
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.settings.model import HooksSettings, Settings
from manydesks.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLE = ROOT / "examples" / "plugins" / "office_hours.py"


@pytest.fixture
def the_home(home: Path) -> Home:
    found = Home(home)
    found.prepare()
    return found


async def test_every_plugin_of_the_page_loads(the_home: Home) -> None:
    for number, block in enumerate(BLOCKS):
        (the_home.plugins / f"block{number}.py").write_text(block)
    found = await examine(the_home, HooksSettings(), {})
    assert len(found) == len(BLOCKS) >= 2
    assert [row["reason"] for row in found] == [None] * len(BLOCKS)
    assert {spec["hook"] for row in found for spec in row["hooks"]} == {"incoming", "outgoing", "on"}


@pytest.mark.parametrize("kind", [base.Message, base.Answer, base.Event])
def test_every_field_is_named(kind: type) -> None:
    (cell,) = re.findall(rf"^\| `{kind.__name__}` \| (.+) \|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", cell) == [field.name for field in dataclasses.fields(kind)]


def test_numbers_are_those_of_the_code() -> None:
    assert f"together have {roster.INCOMING_SECONDS:g} seconds" in PAGE
    assert f"loading a plugin has {line.LOAD_SECONDS:g}" in PAGE
    assert f"at most {check.METADATA_BYTES // 1024} KiB" in PAGE
    assert plugin.MOST_LOST == 3
    assert all(f"`{name}`" in PAGE for name in check.OWN)


async def test_the_example_works(the_home: Home) -> None:
    shutil.copy(EXAMPLE, the_home.plugins)
    store = Store(the_home.office_db, durability="crash")
    hooks = Hooks(store, the_home, InForce(Settings()))
    message = Incoming(source="api", key="api_1", text="hello", channel="console", platform_id="x")
    try:
        (row,) = await hooks.listed()
        assert (row["state"], len(row["hooks"])) == ("on", 4)
        assert isinstance((await hooks.incoming(message)).metadata["at_night"], bool)
        with pytest.raises(BadInput, match="looks like a card number"):
            await hooks.incoming(dataclasses.replace(message, text="it is 4111 1111 1111 1111, thanks"))
    finally:
        await hooks.stop()
        store.close()
