"""Cells of Spark as the outputs know them."""

from __future__ import annotations

import math
from typing import Any

from manydesks.cli.output import Column, dumps
from manydesks.cli.text import harmless


def plain_cell(cell: Any) -> Any:
    """A cell as JSON knows it; what it does not know becomes text."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    if cell is None or isinstance(cell, bool | int | float | str):
        return cell
    if hasattr(cell, "asDict"):
        cell = cell.asDict()
    if isinstance(cell, dict):
        return {_key(key): plain_cell(value) for key, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [plain_cell(value) for value in cell]
    return bytes(cell).hex() if isinstance(cell, bytes | bytearray) else str(cell)


def _key(key: Any) -> str:
    found = plain_cell(key)
    return found if isinstance(found, str) else dumps(found)


def text_cell(cell: Any) -> Any:
    """A cell for a table or for CSV: what is nested is written as JSON."""
    found = plain_cell(cell)
    return dumps(found) if isinstance(found, dict | list) else found


def csv_cell(cell: Any, *, terminal: bool) -> Any:
    """Programs get what was said as it was said, a person's terminal what does it no harm."""
    found = text_cell(cell)
    return harmless(found) if terminal and isinstance(found, str) else found


def column(name: str, cells: list[Any]) -> Column:
    """Numbers stand at the right, and are never cut."""
    numbers = bool(cells) and all(isinstance(cell, int | float | None) for cell in cells)
    return Column(name, right=numbers, flexible=not numbers)
