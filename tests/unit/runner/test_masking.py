from __future__ import annotations

import pytest

from manydesks.runner.masking import masked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key sk-ant-api03-abcDEF_123 refused", "key *** refused"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("sent Bearer abcdefgh12 to it", "sent Bearer *** to it"),
        ("x-api-key: abcd1234", "x-api-key: ***"),
        ('{"api_key": "abcd1234", "n": 1}', '{"api_key": "***", "n": 1}'),
        ("GITHUB_TOKEN=ghp_0123456789abcdef", "GITHUB_TOKEN=***"),
        ("password = hunter22", "password = ***"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***"),
        ('{"password": "hu nter2", "n": "a b"}', '{"password": "***", "n": "a b"}'),
        ("SECRET_KEY = 'ab cd' # it", "SECRET_KEY = '***' # it"),
        ("private_key=abcd1234", "private_key=***"),
        ("accessToken: abcd1234", "accessToken: ***"),
        ("passphrase: abcd1234", "passphrase: ***"),
        ("the api key: abcd1234", "the api key: ***"),
        ('password: "hunter22 and no end', 'password: "*** and no end'),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.sig", "***"),
        ("ASIAIOSFODNN7EXAMPLE", "***"),
        ("hf_abcdefghijklmnopqrst", "***"),
        ("AIzaSyA0123456789abcdefghijklmnopqrstuv", "***"),
        ("bot 123456789:AAF0123456789abcdefghijklmnopqrstuv is up", "bot *** is up"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- ok", "*** ok"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "***"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOY\n-----END PGP PRIVATE KEY BLOCK-----", "***"),
        ("postgres://ada:hunter2@db/office", "postgres://ada:***@db/office"),
        ("https://example.org:8080/a@b", "https://example.org:8080/a@b"),
        ("nothing to hide: 42 tokens were used", "nothing to hide: 42 tokens were used"),
    ],
)
def test_what_looks_like_a_key_is_hidden(text: str, expected: str) -> None:
    assert masked(text) == expected
