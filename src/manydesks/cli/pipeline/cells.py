"""Cells of Spark as the outputs know them."""

from __future__ import annotations

import math
from typing import Any

from manydesks.cli.output import Column


def plain_cell(cell: Any) -> Any:
    """A cell as JSON knows it; what it does not know becomes text."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    if cell is None or isinstance(cell, bool | int | float | str):
        return cell
    if hasattr(cell, "asDict"):
        cell = cell.asDict()
    if isinstance(cell, dict):
        return {str(key): plain_cell(value) for key, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [plain_cell(value) for value in cell]
    return bytes(cell).hex() if isinstance(cell, bytes | bytearray) else str(cell)


def column(name: str, cells: list[Any]) -> Column:
    """Numbers stand at the right, and are never cut."""
    numbers = bool(cells) and all(isinstance(cell, int | float | None) for cell in cells)
    return Column(name, right=numbers, flexible=not numbers)
