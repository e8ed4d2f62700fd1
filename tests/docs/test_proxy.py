"""The page on the proxy says what the code says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from manydesks.proxy.dialect import DIALECTS
from manydesks.proxy.limits import Limits
from manydesks.proxy.upstream import Upstream

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "proxy.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    text = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]


def test_every_limit() -> None:
    said = {cells[0].strip("`"): float(cells[1]) for cells in rows("Limits")}
    assert said == {field.name: field.default for field in fields(Limits)}


def test_every_refusal() -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src" / "manydesks" / "proxy").glob("*.py"))
    known: dict[str, set[int]] = {}
    for status, word in re.findall(r'Refused\((\d+), "(\w+)"', source):
        known.setdefault(word, set()).add(int(status))
    said = {cells[0].strip("`"): {int(status) for status in cells[1].split(",")} for cells in rows("Refusals")}
    assert said == known


def test_every_field_and_route() -> None:
    tables = rows("Upstreams")
    assert [cells[0].strip("`") for cells in tables if len(cells) == 2] == [field.name for field in fields(Upstream)]
    said = {cells[0].strip("`"): (cells[1].strip("`"), cells[2]) for cells in tables if len(cells) == 3}
    assert said == {
        kind: (dialect.key_header, ", ".join(f"`{route.method} {route.path}`" for route in dialect.routes))
        for kind, dialect in DIALECTS.items()
    }
