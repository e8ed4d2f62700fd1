"""The page of tools names every tool and every argument, and marks those that must be given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from manydesks.runner import toolserver_rpc
from manydesks.runner.tools import registry

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "tools.md").read_text(encoding="utf-8")


def sections() -> dict[str, str]:
    return dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))


def test_every_tool_has_its_heading() -> None:
    assert sorted(sections()) == sorted(registry.find())


@pytest.mark.parametrize("name", registry.find())
def test_every_argument_has_its_line(name: str) -> None:
    lines = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", sections()[name], re.MULTILINE))
    tool = registry.find()[name]
    assert set(lines) == set(tool.arguments)
    assert {argument for argument, meaning in lines.items() if meaning.endswith("required")} == tool.required


def test_every_revision_of_the_protocol_is_named() -> None:
    assert all(version in PAGE for version in toolserver_rpc.VERSIONS)
