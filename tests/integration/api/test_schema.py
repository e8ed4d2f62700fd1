"""schemathesis asks the server everything that its own document allows, and more: all checks, no failure.

What a document cannot say, that an agent must exist, say, is put right before a request is sent; nothing is left out.
The stream, which has no end, has tests of its own (test_stream.py).
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import urllib3
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode

from manydesks.api.app import openapi_document
from manydesks.testing.api import ServedOffice

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

_numbers = count(1)
DEEP = settings.get_current_profile_name() == "deep"
EXAMPLES = 200 if DEEP else 5


def from_anywhere(address: tuple[str, int], *args: Any, **kwargs: Any) -> socket.socket:
    """Each connection from another address of the loopback: wrong logins of one address are slowed."""
    number = next(_numbers)
    kwargs["source_address"] = (f"127.{1 + number // 62_500 % 250}.{number // 250 % 250}.{number % 250 + 1}", 0)
    return socket.create_connection(address, timeout=30, source_address=kwargs["source_address"])


@pytest.fixture(scope="module")
def asked() -> Iterator[ServedOffice]:
    with tempfile.TemporaryDirectory(prefix="md-") as folder:
        office = ServedOffice(Path(folder) / "home", {**os.environ})
        office.start()
        with pytest.MonkeyPatch.context() as patch:
            # also for the requests that schemathesis makes by itself
            patch.setattr(urllib3.util.connection, "create_connection", from_anywhere)
            yield office
        office.kill()
        assert "Traceback" not in office.log()


schema = schemathesis.openapi.from_dict(openapi_document()).exclude(path="/api/events/stream")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
def test_the_document_is_true(case: schemathesis.Case, asked: ServedOffice) -> None:
    if case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        put_right(case)
    case.call_and_validate(base_url=asked.url(), headers={"Authorization": f"Bearer {asked.token()}"})


#: settings that may be anything without ending the test
HARMLESS = ("retry", "limits", "dispatch", "delivery")


def put_right(case: schemathesis.Case) -> None:
    """What is valid by the document, and would be refused all the same: who is named must be there."""
    body: Any = case.body if isinstance(case.body, dict) else {}
    match f"{case.operation.method.upper()} {case.operation.path}":
        case "POST /api/message" | "POST /api/responses":
            if body.get("agent") is not None:
                body["agent"] = "assistant"
            if "files" in body:
                body["files"] = [{"name": f"{n}.txt", "content": "YQ=="} for n, _ in enumerate(body["files"])]
        case "PUT /api/agents/{id}":
            case.path_parameters["id"] = f"a-{case.path_parameters['id'][:20]}"
            body |= {
                "name": "Amy",
                "provider": "rehearsal",
                "workspace": None,
                "sandbox": None,
                "options": None,
                "reaches": None,
            }
            body.pop("version", None)
            if body.get("budget"):
                body["budget"]["usd"] = 1.0
        case "PUT /api/teams/{id}":
            case.path_parameters["id"] = f"t-{case.path_parameters['id'][:20]}"
            body |= {"name": "Web", "agents": ["assistant"], "leader_agent": "assistant"}
            body.pop("version", None)
        case "POST /api/queue/cancel":
            body["agent"] = None
        case "PUT /api/settings":
            case.body = {name: body[name] for name in HARMLESS if name in body}
        case "GET /api/events" if case.query and case.query.get("types"):
            case.query["types"] = "agent_added"
        case _:
            pass
