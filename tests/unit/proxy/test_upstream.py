"""What an upstream may be."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.domain.errors import SettingsError
from manydesks.proxy.dialect import DIALECTS
from manydesks.proxy.upstream import Upstream


def upstream(**fields: Any) -> Upstream:
    usual: dict[str, Any] = {"name": "main", "kind": "anthropic", "base_url": "https://api.example.com", "key": "k"}
    return Upstream(**usual | fields)


@pytest.mark.parametrize(
    "base_url",
    [
        "https://api.example.com",
        "https://api.example.com:8443/v1/",
        "http://127.0.0.1:11434/v1",
        "http://localhost/v1",
        "http://[::1]:80",
        "https://10.0.0.7/v1beta/openai",
    ],
)
def test_addresses(base_url: str) -> None:
    assert upstream(base_url=base_url).url("/x", "") == base_url.rstrip("/") + "/x"
    assert upstream(base_url=base_url).url("/x", "beta=true") == base_url.rstrip("/") + "/x?beta=true"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base_url": "http://api.example.com"}, "in the clear"),
        ({"base_url": "http://127.0.0.1.example.com"}, "in the clear"),
        ({"base_url": "http://localhost.example.com"}, "in the clear"),
        ({"base_url": "ftp://api.example.com"}, "must begin with https://"),
        ({"base_url": "api.example.com"}, "must begin with https://"),
        ({"base_url": "https://"}, "must begin with https://"),
        ({"base_url": "https://ada:secret@api.example.com"}, "must not hold a name or a password"),
        ({"base_url": "https://api.example.com/?a=b"}, r"must not hold \? or #"),
        ({"base_url": "https://api.example.com/#a"}, r"must not hold \? or #"),
        ({"base_url": "https://api.example.com/v1/../v2"}, "has a path with"),
        ({"base_url": "https://api.example.com/a b"}, "has a path with"),
        ({"base_url": "https://api.example.com:99999"}, "is not a URL"),
        ({"base_url": "https://exämple.com"}, "plain ASCII"),
        ({"name": "../x"}, "an upstream's name is"),
        ({"name": "Main"}, "an upstream's name is"),
        ({"kind": "gemini"}, "kind is anthropic or openai, not 'gemini'"),
        ({"key_header": "x-key\r\nx-evil"}, "must be a header's name"),
    ],
)
def test_what_is_not_allowed(fields: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as raised:
        upstream(**fields)
    assert "secret" not in str(raised.value)


def test_the_header_of_the_key() -> None:
    assert upstream().auth("sk") == ("x-api-key", "sk")
    assert upstream(kind="openai").auth("sk") == ("authorization", "Bearer sk")
    assert upstream(key_header="authorization").auth("sk") == ("authorization", "Bearer sk")
    assert upstream(kind="openai", key_header="api-key").auth("sk") == ("api-key", "sk")


@pytest.mark.parametrize("kind", DIALECTS)
def test_only_what_is_listed_is_open(kind: str) -> None:
    one = upstream(kind=kind)
    for route in DIALECTS[kind].routes:
        assert one.route(route.method, route.path) is route
        assert one.route("DELETE", route.path) is None
        assert one.route(route.method, route.path + "/") is None
        assert one.route(route.method, route.path.upper()) is None


@pytest.mark.parametrize("kind", DIALECTS)
def test_no_header_that_could_carry_a_key_or_change_the_framing_passes(kind: str) -> None:
    passing = DIALECTS[kind].request_headers
    assert not passing & {"authorization", "x-api-key", "api-key", "cookie", "host", "content-length", "connection"}
    assert not any("x-api-key".startswith(name) or "x-goog-".startswith(name) for name in passing)
