"""What is wrong with a request is said in one sentence: which field, and what is allowed; no class, no pattern."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from manydesks.domain.insight import TABLES
from manydesks.testing.api import ServedOffice

TEXT = "'message' is not allowed: it must have something in it that can be read, and no zero byte."
ID = "it must be 1 to 128 letters, digits, or one of '_.:-', beginning and ending with a letter or digit."
MEMORY = 'it must be a size in megabytes or gigabytes such as "800m" or "2g", "512m" or more, or null.'
ORIGINS = 'it must be a list of origins such as ["https://desk.example"], or null.'
SECRET = "a secret's name must be 1 to 64 of a-z, 0-9 and '_', beginning with a letter."
NAME = "it must be 1 to 32 lowercase letters, digits, '-' or '_', beginning and ending with a letter or digit."
FILE = "it must be the absolute path of a file, which begins with '/', or an object with 'name' and 'content'."


@pytest.mark.parametrize(
    ("method", "path", "body", "sentence"),
    [
        ("POST", "/api/message", {"message": "a", "files": ["notes.txt"]}, f"'files.0' is not allowed: {FILE}"),
        (
            "POST",
            "/api/message",
            {"message": "a", "files": [5]},
            "'files.0' is not allowed: it must be an object, or a text.",
        ),
        ("POST", "/api/message", {"message": "a", "files": [{"name": "a"}]}, "'files.0.content' is needed."),
        (
            "POST",
            "/api/message",
            {"message": "a", "files": [{"name": "a", "content": "", "x": 1}]},
            "There is no field 'files.0.x' here.",
        ),
        ("POST", "/api/message", {"message": ""}, "'message' is not allowed: it must not be empty."),
        ("POST", "/api/message", {"message": " \n"}, TEXT),
        ("POST", "/api/message", {"message": 5}, "'message' is not allowed: it must be a text."),
        ("POST", "/api/message", {"message": "a", "agent": "No!"}, f"'agent' is not allowed: {NAME}"),
        ("POST", "/api/message", {"message": "a", "messageId": "-"}, f"'messageId' is not allowed: {ID}"),
        (
            "POST",
            "/api/message",
            {"message": "a", "sender": "a\0"},
            "'sender' is not allowed: it must have no zero byte.",
        ),
        (
            "POST",
            "/api/message",
            {"message": "a", "priority": 101},
            "'priority' is not allowed: it must be less than or equal to 100.",
        ),
        (
            "POST",
            "/api/message",
            {"message": "a", "priority": 1.5},
            "'priority' is not allowed: it must be a whole number.",
        ),
        ("POST", "/api/message", {}, "'message' is needed."),
        ("POST", "/api/message", [], "The body must be a JSON object."),
        ("PUT", "/api/agents/amy", {"name": "a\nb"}, "'name' is not allowed: it must be one line that can be printed."),
        ("PUT", "/api/agents/amy", {"budget": 5}, "'budget' is not allowed: it must be an object."),
        ("PUT", "/api/agents/amy", {"reaches": ["A"]}, f"'reaches.0' is not allowed: {NAME}"),
        ("PUT", "/api/settings", {"pipeline": {"memory": "lots"}}, f"'pipeline.memory' is not allowed: {MEMORY}"),
        ("PUT", "/api/settings", {"api": {"origins": ["x"]}}, f"'api.origins.0' is not allowed: {ORIGINS}"),
        ("PUT", "/api/settings", {"upstreams": {"A!": {}}}, f"'upstreams.A!' is not allowed: {NAME}"),
        ("PUT", "/api/settings", {"secrets": {"A": "x"}}, f"'secrets.A' is not allowed: {SECRET}"),
        ("GET", "/api/agents/A!", None, f"'id' is not allowed: {NAME}"),
        ("GET", "/api/insights/nothing", None, f"'table' is not allowed: it must be one of {', '.join(TABLES)}."),
        (
            "GET",
            "/api/insights/slo?from=2026-01-03&to=2026-01-02",
            None,
            "'from' is 2026-01-03, which is after 'to', 2026-01-02; name the earlier day first.",
        ),
        ("GET", "/api/events?limit=x", None, "'limit' is not allowed: a number is written in digits."),
        ("GET", "/api/events?limit=1001", None, "'limit' is not allowed: it must be less than or equal to 1000."),
    ],
)
def test_which_field_and_what_is_allowed(api: httpx.Client, method: str, path: str, body: Any, sentence: str) -> None:
    answer = api.request(method, path) if body is None else api.request(method, path, json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, sentence)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            b'{"message": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
            "The body is nested too deeply; no request needs more than a few levels.",
        ),
        (b'{"message": "\xff"}', "The body is not valid UTF-8; JSON is sent as UTF-8."),
        ('{"message": "hello"}'.encode("utf-16"), "The body is not valid UTF-8; JSON is sent as UTF-8."),
        ('{"message": "hello"}'.encode("utf-32-be"), "The body is not valid UTF-8; JSON is sent as UTF-8."),
        (
            b'{"message": "a", "priority": ' + b"9" * 5000 + b"}",
            "A number of the body is too long; at most 4300 digits are read.",
        ),
        (b'{"message": "a", "priority": 1e999}', "'priority' is not allowed: it must be a whole number."),
        (b'{"message": ', "The body is not valid JSON."),
        (b"", "A body is needed: a JSON object."),
    ],
    ids=["deep", "bytes", "utf-16", "utf-32", "digits", "infinite", "cut", "none"],
)
def test_a_body_that_cannot_be_read(served: ServedOffice, api: httpx.Client, body: bytes, sentence: str) -> None:
    answer = api.post("/api/message", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, sentence)
    assert "Traceback" not in served.log()
