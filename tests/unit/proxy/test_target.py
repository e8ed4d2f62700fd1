"""What a request asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.proxy.refusal import Refused
from manydesks.proxy.target import Target, passing_query, read_target


def test_targets() -> None:
    assert read_target(b"/main/v1/messages?beta=true") == Target(
        upstream="main", path="/v1/messages", query="beta=true"
    )
    assert read_target(b"/main") == Target(upstream="main", path="", query="")


@given(st.text(st.sampled_from("/.%\\?#&=:ab2e@ \x00\r\nü"), max_size=20))
def test_whatever_is_read_is_plain(text: str) -> None:
    try:
        target = read_target(b"/main" + text.encode())
    except Refused:
        return
    assert not set(target.path) & set("%\\?# @\0\r\n")
    assert "//" not in target.path
    assert not {".", ".."} & set(target.path.split("/"))


@pytest.mark.parametrize(
    ("query", "passing"),
    [
        ("beta=true", "beta=true"),
        ("api_key=x&beta=true&&key", "beta=true"),
        ("beta", "beta"),
        ("BETA=true", ""),
        ("%62eta=true", ""),
        ("", ""),
    ],
)
def test_only_known_names_of_a_query_pass(query: str, passing: str) -> None:
    assert passing_query(query, frozenset({"beta"})) == passing
