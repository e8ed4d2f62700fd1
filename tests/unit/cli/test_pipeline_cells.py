"""Cells of an answer: what is nested is JSON, wherever it is printed."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from pyspark.sql import Row

from manydesks.cli.pipeline.cells import csv_cell, plain_cell, text_cell


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, None),
        ("a 'word'", "a 'word'"),
        (7, 7),
        (True, True),
        (Decimal("1.50"), "1.50"),
        (date(2026, 1, 31), "2026-01-31"),
        ([1, None, True], "[1, null, true]"),
        (Row(a=1, b=Row(c="it's", d=None)), '{"a": 1, "b": {"c": "it\'s", "d": null}}'),
        ({"k": [Row(x=date(2026, 1, 31))]}, '{"k": [{"x": "2026-01-31"}]}'),
        ({1: "a"}, '{"1": "a"}'),
        ({True: "b"}, '{"true": "b"}'),
        ({Row(a=1): False}, '{"{\\"a\\": 1}": false}'),
        ([float("nan"), b"\x01\xff"], '["nan", "01ff"]'),
        ("ü", "ü"),
        (["ü"], '["ü"]'),
    ],
)
def test_a_cell_as_text(cell: Any, text: Any) -> None:
    assert text_cell(cell) == text
    if isinstance(plain_cell(cell), dict | list):
        assert json.loads(text) == plain_cell(cell)


def test_a_terminal_gets_no_control_characters_in_csv() -> None:
    said = "=1+1\x1b[2J\u202e"
    assert csv_cell(said, terminal=False) == said
    assert csv_cell(said, terminal=True) == "=1+1\\x1b[2J\\u202e"
    assert (csv_cell(7, terminal=True), csv_cell(None, terminal=True)) == (7, None)
