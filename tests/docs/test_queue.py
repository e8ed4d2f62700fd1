"""The page on the queue says what the code says, and its examples run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from manydesks.domain import errors
from manydesks.queue import AsyncQueue, Queue
from manydesks.queue.queue import Opened

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "queue.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def first_cells(heading: str) -> list[str]:
    text = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]


def words(cells: list[str]) -> list[str]:
    return [word for cell in cells for word in re.findall(r"`(\w+)", cell)]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    try:
        exec(compile(block, "queue.md", "exec"), names)
    finally:
        queue = names["q"]
        assert isinstance(queue, Queue)
        queue.close()


@pytest.mark.parametrize("kind", [Queue, AsyncQueue])
def test_every_verb_and_no_other(kind: type[Opened]) -> None:
    public = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    assert set(words(first_cells("What each verb promises"))) == public


def test_every_argument_of_opening() -> None:
    arguments = list(inspect.signature(Opened).parameters)
    assert words(first_cells("Opening")) == arguments


def test_every_kind_of_event() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "src" / "manydesks" / "queue").glob("*.py")]
    written = {word for source in sources for word in re.findall(r'\.event\("(\w+)"', source)}
    written |= {
        word
        for source in sources
        for pair in re.findall(r'\.event\("(\w+)" if \w+ else "(\w+)"', source)
        for word in pair
    }
    written |= {word for source in sources for word in re.findall(r'_delete\(tx, queue, "(\w+)"', source)}
    assert set(words(first_cells("The file"))) == written


def test_every_error_exists() -> None:
    for name in words(first_cells("Errors")):
        assert issubclass(getattr(errors, name), errors.ManyDesksError)
