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
from schemathesis.core.parameters import ParameterLocation

import manydesks.api
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
    case.call_and_validate(base_url=asked.url(), headers=login(case, asked))


def login(case: schemathesis.Case, office: ServedOffice) -> dict[str, str]:
    """The token, but not for a request whose fault is that it has none: with it, nothing might be wrong any more."""
    headers = case.meta.components.get(ParameterLocation.HEADER) if case.meta is not None else None
    if headers is not None and headers.mode is GenerationMode.NEGATIVE:
        return {}
    return {"Authorization": f"Bearer {office.token()}"}


#: files that are there, each with another name
FILES = sorted(Path(manydesks.api.__file__).parent.glob("*.py"))
#: what an entry of a table of the settings must have
NEEDED: dict[str, dict[str, Any]] = {
    "prices": {"model": "m1", "input_usd": 1, "output_usd": 1},
    "upstreams": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"},
}
#: and what is looked up before it is taken
REAL = {
    "base_url": "http://127.0.0.1:9/v1",
    "time_zone": "Europe/Berlin",
    "host": "127.0.0.1",
    "default_agent": "assistant",
    "lake": "",
    "spark": {},
}
#: keys that would end the test itself: who is let in and with what, and what starts Spark
KEPT = {"api": {"auth", "body_bytes", "enabled", "tls_certificate", "tls_key"}, "pipeline": {"auto"}}


def put_right(case: schemathesis.Case) -> None:
    """What is valid by the document, and would be refused all the same: what is named must be there."""
    body: Any = case.body if isinstance(case.body, dict) else {}
    match f"{case.operation.method.upper()} {case.operation.path}":
        case "POST /api/message" | "POST /api/responses":
            if body.get("agent") is not None:
                body["agent"] = "assistant"
            for number, file in enumerate(body.get("files", ())):
                if isinstance(file, str):
                    body["files"][number] = str(FILES[number])
                else:
                    file["name"] = f"{number}.txt"
        case "PUT /api/agents/{id}":
            id = case.path_parameters["id"] = f"a{case.path_parameters['id'][:31]}".rstrip("-_")
            there = {"id": id, "provider": "rehearsal", "workspace": f"workspaces/{id}", "sandbox": "none"}
            body |= {name: value for name, value in there.items() if body.get(name) is not None}
            body["name"] = printed(body.get("name", ""))
            # what a new one needs, one that is there may leave out; which of the two it is, no document knows
            body |= {"provider": "rehearsal", "model": body.get("model")}
            body.pop("version", None)
            if body.get("options"):
                body["options"] = {}
            if body.get("reaches"):
                body["reaches"] = ["assistant"]
            if (body.get("budget") or {}).get("usd"):
                body["budget"]["usd"] = max(body["budget"]["usd"], 0.01)
        case "PUT /api/teams/{id}":
            id = case.path_parameters["id"] = f"t{case.path_parameters['id'][:31]}".rstrip("-_")
            body |= {"id": id} if body.get("id") is not None else {}
            body |= {"agents": ["assistant"] * len(body.get("agents", ())), "leader_agent": "assistant"}
            body["name"] = printed(body.get("name", ""))
            body.pop("version", None)
        case "POST /api/queue/cancel" if body["agent"] is not None:
            body["agent"] = "assistant"
        case "PUT /api/settings":
            body.pop("version", None)
            secrets = body.get("secrets") or {}
            secrets |= {name: value.strip() or "x" for name, value in secrets.items() if value is not None}
            for table in ("channels", "providers"):  # each has options of its own
                body |= {table: {}} if body.get(table) else {}
            for table, needed in NEEDED.items():  # null takes a key out, and these cannot do without
                for entry in filter(None, (body.get(table) or {}).values()):
                    entry |= {key: value for key, value in needed.items() if entry.get(key) is None or key in REAL}
            for section in (part for part in body.values() if isinstance(part, dict)):
                section |= {key: value for key, value in REAL.items() if section.get(key) is not None}
                # caps are 0, or not too small to be one
                section |= {key: 1.0 for key, value in section.items() if key.endswith("_usd") and value}
            for section, keys in KEPT.items():
                for key in keys & (body.get(section) or {}).keys():
                    del body[section][key]
        case "GET /api/insights/{table}" if (query := case.query or {}).get("from") and query.get("to"):
            query["from"], query["to"] = sorted((query["from"], query["to"]))
        case "GET /api/logs" if (case.query or {}).get("of") is not None:
            case.query["of"] = "assistant"
        case "GET /api/events" if (case.query or {}).get("history") is not None:
            case.query["history"] = "0"  # of an office that was never put back
        case _:
            pass


def printed(name: str) -> str:
    """Which characters can be printed is nothing that a pattern could say."""
    return "".join(filter(str.isprintable, name)).strip() or "Amy"
