"""The page about the kit says what the code says, and its examples run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from manydesks.testing.model import Fault, ModelServer, ScriptedModel, Turn, Usage, When, read_script

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def table(heading: str) -> list[list[str]]:
    """The code spans in each row of the table below a heading."""
    _, _, rest = PAGE.partition(f"\n{heading}\n")
    below = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return [re.findall(r"`([^`]+)`", line) for line in below.splitlines() if re.match(r"\| `", line)]


def fields(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def test_python_blocks_run() -> None:
    model, s3 = blocks("python")
    for block in (model, s3):
        exec(compile(block, "testing.md", "exec"), {})


def test_json_blocks_are_scripts() -> None:
    [block] = blocks("json")
    assert len(read_script(block).turns) == 4


@pytest.mark.parametrize("kind", [Turn, Usage, When])
def test_every_field_has_its_row(kind: Any) -> None:
    assert [row[0] for row in table(f"### `{kind.__name__}`")] == fields(kind)


def test_every_fault_has_its_row() -> None:
    kinds = get_args(get_args(Fault)[0])
    written = [
        (row[1], row[0], row[2 : 1 + len(fields(kind))])
        for row, kind in zip(table("### Faults")[1:], kinds, strict=True)
    ]
    expected = []
    for kind in kinds:
        word = next(field.default for field in dataclasses.fields(kind) if field.name == "kind")
        expected.append((kind.__name__, word, [name for name in fields(kind) if name != "kind"]))
    assert written == expected


def test_both_servers_have_every_verb() -> None:
    names = {
        name.split("(")[0]
        for row in table("## What the server saw")
        for name in row
        if name.split("(")[0] in dir(ModelServer)
    }
    assert names == {
        "requests",
        "others",
        "endings",
        "wait_requests",
        "wait_endings",
        "wait_hanging",
        "release",
        "play",
    }
    assert names <= set(dir(ScriptedModel))
