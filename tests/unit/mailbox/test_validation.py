from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.mailbox import validation
from manydesks.mailbox.validation import RowError

_text = st.text(st.characters(exclude_categories=["Cs"]))
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_text, _json, max_size=5))
def test_what_is_packed_is_unpacked_the_same(content: dict[str, Any]) -> None:
    assert validation.unpack(validation.pack(content)) == content


@given(st.text() | st.binary() | st.none() | st.integers())
def test_whatever_stands_in_a_row_is_either_an_object_or_refused(value: Any) -> None:
    try:
        content = validation.unpack(value)
    except RowError:
        return
    json.dumps(content, ensure_ascii=False).encode()


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_the_depth_has_an_exact_end() -> None:
    validation.pack(nested(validation.MAX_DEPTH))
    with pytest.raises(RowError, match="deeper"):
        validation.pack(nested(validation.MAX_DEPTH + 1))


def test_the_size_is_counted_in_bytes() -> None:
    room = validation.MAX_CONTENT - len('{"t":""}')
    validation.pack({"t": "x" * room})
    with pytest.raises(RowError, match="larger"):
        validation.pack({"t": "x" * (room + 1)})
    with pytest.raises(RowError, match="larger"):
        validation.pack({"t": "ö" * (room // 2 + 1)})


def test_mappings_and_tuples_become_objects_and_lists() -> None:
    assert validation.pack({"a": ({"b": 1},)}) == '{"a":[{"b":1}]}'


@pytest.mark.parametrize("value", [{"a": object()}, {"a": float("nan")}, {"a": {1, 2}}])
def test_what_is_no_json_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(RowError):
        validation.pack(value)
