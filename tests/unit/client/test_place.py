"""Addresses and tokens as they are given, without an office."""

from __future__ import annotations

import pytest

from manydesks.client import AsyncClient, Client
from manydesks.client.place import place_of
from manydesks.domain.errors import OfficeError

URL = "http://127.0.0.1:1"


def test_white_space_around_a_token_is_none_of_it() -> None:
    assert place_of(URL, " kX2tSecret\r\n", None).headers() == {"Authorization": "Bearer kX2tSecret"}
    assert place_of(URL, "", None).headers() == {}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("token", ["kX2t\nSecret", "kX2t Secret", "kX2tSecret\u00f6", "kX2tSecret\x00", "kX2t\ud800"])
def test_what_no_header_carries_is_refused_at_once_and_not_shown(
    kind: type[Client] | type[AsyncClient], token: str
) -> None:
    with pytest.raises(OfficeError, match=r"^The token that was given cannot be one: .*\.$") as refused:
        kind(URL, token=token)
    assert refused.value.__context__ is None
    assert "kX2t" not in repr(refused.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:3777", "localhost:3777", "office", "", "http://", "ftp://office", "http://[bad", "http://a:99999"],
)
def test_what_is_no_address_is_refused_at_once(kind: type[Client] | type[AsyncClient], url: str) -> None:
    with pytest.raises(OfficeError, match="is no address of an office; one is written as http://"):
        kind(url, token="")


def test_an_address_is_taken_as_it_is_meant() -> None:
    assert place_of(" https://office.lan:3777/ ", "", None).url == "https://office.lan:3777"
    assert place_of("http://[::1]:3777", "", None).url == "http://[::1]:3777"
