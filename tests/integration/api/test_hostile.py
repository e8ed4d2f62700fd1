"""A client that means no good, or knows no better: it is refused with a sentence, and nobody else notices."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.testing.api import ServedOffice


def line_to(office: ServedOffice) -> socket.socket:
    url = httpx.URL(office.url())
    return socket.create_connection((url.host, url.port), timeout=20)


def asking(office: ServedOffice, first: str, *headers: str, body: str = "") -> bytes:
    lines = (first, "Host: localhost", f"Authorization: Bearer {office.token()}", *headers, "", body)
    return "\r\n".join(lines).encode("latin-1")


def asked(office: ServedOffice, first: str, *headers: str, body: str = "") -> tuple[int, bytes]:
    """The status and the body of what is answered to these very bytes, up to the end of the connection."""
    with line_to(office) as line:
        line.sendall(asking(office, first, "Connection: close", *headers, body=body))
        said = b""
        while part := line.recv(1 << 16):
            said += part
    head, _, rest = said.partition(b"\r\n\r\n")
    assert b"X-Evil" not in head
    return int(head.split()[1]), rest


@pytest.mark.parametrize("path", ["/api/queue/status", "/api/events/stream", "/api/docs", "/api/message/x?wait=60"])
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PATCH", "CONNECT", "PURGE"])
def test_methods_that_nothing_has(served: ServedOffice, method: str, path: str) -> None:
    status, body = asked(served, f"{method} {path} HTTP/1.1", "Content-Type: application/json", "Content-Length: 0")
    assert status == 405
    assert body == b"" if method == "HEAD" else list(json.loads(body)) == ["error"]


@pytest.mark.parametrize(
    "last", ["", "-1", "+1", "1e3", "0x10", "1.0", "1_0", "\xb2", "1, 2", "NaN", "9" * 18, "9" * 19, "9" * 5000]
)
def test_places_that_no_ledger_has(served: ServedOffice, last: str) -> None:
    status, body = asked(served, "GET /api/events/stream HTTP/1.1", f"Last-Event-ID: {last}")
    assert status == 400
    assert json.loads(body)["error"].endswith(".")


@pytest.mark.parametrize("after", ["-1", "1_000", "%2B1", "%201", "1%0A", "1e3", "%D9%A1", str(2**63), "9" * 5000, ""])
@pytest.mark.parametrize("path", ["/api/events", "/api/events/stream", "/api/queue/dead", "/api/chatroom/x?since=0&"])
def test_numbers_that_are_none(served: ServedOffice, path: str, after: str) -> None:
    name = "limit" if "chatroom" in path else "after"
    mark = "" if path.endswith("&") else "?"
    status, body = asked(served, f"GET {path}{mark}{name}={after} HTTP/1.1")
    assert status == 400, body
    assert name in json.loads(body)["error"]


@pytest.mark.parametrize(
    "query", ["limt=5", "=", "=1", "limit", "limit=5&x", "LIMIT=5", "limit%00=5", "%ff=1", "a[]=1"]
)
def test_parameters_that_a_route_does_not_have(served: ServedOffice, query: str) -> None:
    for path in ("/api/queue/dead", "/api/sessions"):
        status, body = asked(served, f"GET {path}?{query} HTTP/1.1")
        assert status == 400
        assert "limit" in json.loads(body)["error"] or "no parameter" in json.loads(body)["error"]
    assert asked(served, "POST /api/resume?x=1 HTTP/1.1")[0] == 400
    # what has no such address has no parameters either
    assert asked(served, f"GET /api/nothing?{query} HTTP/1.1")[0] == 404


def test_behind_the_end_of_the_ledger_there_is_nothing(api: httpx.Client) -> None:
    head = api.get("/api/events", params={"limit": 1}).json()["head"]
    for after in (head, head + 1, 2**63 - 1):
        assert api.get("/api/events", params={"after": after}).json() == {"events": [], "head": head}
    with api.stream("GET", "/api/events/stream", params={"after": head}) as response:
        assert response.status_code == 200


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "1e400", "60.1", "0x1", "1_0", "%20", ""])
def test_waits_that_are_none(served: ServedOffice, wait: str) -> None:
    status, body = asked(served, f"GET /api/message/x?wait={wait} HTTP/1.1")
    assert (status, "wait" in json.loads(body)["error"]) == (400, True)


PATHS = {
    "/api/agents/%2e%2e": 400,
    "/api/agents/..": 400,
    "/api/agents/..%2f..%2fapi.token": 404,
    "/api/agents/../docs": 404,
    "/api/docs/../agents": 404,
    "/api/docs%2f..%2fagents": 404,
    "/api/./agents": 404,
    "//api/agents": 404,
    "/api//agents": 404,
    "/api/agents/": 404,
    "/api/agents/assistant%00": 400,
    "/api/agents/assistant%0a": 400,
    "/api/agents/assistant%0d%0aX-Evil:%201": 400,
    "/api/agents/%C3%A4": 400,
    "/api/agents/%ff": 400,
    "/api/agents/a%F0%9F%98%80": 400,
    "/api/agents/%E2%80%AEa": 400,
    "/api/agents/%EF%BC%A1": 400,
    "/api/agents/assistant;x=1": 400,
    "/api/agents/ASSISTANT": 400,
    "/api/agents/" + "a" * 33: 400,
    "/api/agents/" + "a" * 50_000: 400,
    "/api/message/" + "%41" * 5000: 400,
    "/api/traces/%00": 400,
    "/api/sessions/..%2e": 400,
    "/api/runs/%2e%2e/export": 400,
    "/api/logs?of=..%2fhost": 400,
    "/api/logs?of=assistant%0a": 400,
    "/api/insights/slo%00": 400,
    "/api/insights/meta": 400,
    "/api/responses/1%00": 404,
    "/api/responses/-1": 404,
    "/api/responses/1e3": 404,
    "/api/responses/%D9%A1": 404,
    "http://evil.example/api/agents": 404,
    "*": 404,
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_lead_nowhere(served: ServedOffice, path: str) -> None:
    for method in ("GET", "DELETE"):
        status, body = asked(served, f"{method} {path} HTTP/1.1")
        assert status == PATHS[path] or (method, status) == ("DELETE", 405), body
        assert list(json.loads(body)) == ["error"]
    assert served.token().encode() not in body


def test_a_name_for_the_documents_opens_nothing_else(served: ServedOffice) -> None:
    def stranger(path: str) -> int:
        with line_to(served) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return int(line.recv(100).split()[1])

    assert stranger("/api/%64ocs") == 200
    for path in ("/api/docs/", "/api/docs/../agents", "/api/docs%2f..%2fagents", "/api/docs%00", "/api/docs;/agents"):
        assert stranger(path) == 401


@pytest.mark.parametrize("place", ["?token={}", "?access_token={}", "?authorization=Bearer%20{}", "?api_key={}"])
def test_a_token_in_the_address_lets_nobody_in_and_is_not_logged(served: ServedOffice, place: str) -> None:
    with httpx.Client(base_url=served.url(), trust_env=False) as stranger:
        assert stranger.get("/api/queue/status" + place.format(served.token())).status_code == 401
        assert stranger.get("/api/queue/status", headers={"Cookie": f"token={served.token()}"}).status_code == 401
    assert served.token() not in served.log()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (("Content-Length: 2", "Content-Length: 3"), "{}"),
        (("Content-Length: +2",), "{}"),
        (("Content-Length: -2",), "{}"),
        (("Content-Length: 2, 3",), "{}"),
        (("Transfer-Encoding: chunked",), "zz\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: chunked",), "-2\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: gzip, chunked",), "2\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: identity",), "{}"),
        (("Host: evil.example", "Content-Length: 2"), "{}"),
        (("X-Evil\r: 1", "Content-Length: 2"), "{}"),
        ((" folded: 1\x00", "Content-Length: 2"), "{}"),
    ],
)
def test_requests_that_two_readers_would_read_in_two_ways(
    served: ServedOffice, api: httpx.Client, headers: tuple[str, ...], body: str
) -> None:
    before = api.get("/api/events", params={"limit": 1}).json()["head"]
    status, said = asked(served, "POST /api/pause HTTP/1.1", "Content-Type: application/json", *headers, body=body)
    assert status in (400, 501)
    assert b"Traceback" not in said
    assert api.get("/api/events", params={"limit": 1}).json()["head"] == before


def test_what_is_sent_behind_a_request_is_the_next_one_and_nobody_else_s(served: ServedOffice) -> None:
    """A body that claims to be chunked and to have a length is read as chunks, and the connection ends with it."""
    with line_to(served) as line:
        smuggled = "GET /api/settings HTTP/1.1\r\nHost: localhost\r\n\r\n"
        chunks = f"0\r\n\r\n{smuggled}"
        line.sendall(
            asking(
                served,
                "POST /api/resume HTTP/1.1",
                "Content-Type: application/json",
                f"Content-Length: {len(chunks)}",
                "Transfer-Encoding: chunked",
                body=chunks,
            )
        )
        said = b""
        line.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while part := line.recv(1 << 16):
                said += part
    # without a token of its own, whatever it is taken for
    assert re.findall(rb"HTTP/1.1 (\d+)", said)[1:] in ([], [b"401"], [b"400"])


def test_chunks_without_end_are_refused_and_not_kept(served: ServedOffice, api: httpx.Client) -> None:
    with line_to(served) as line:
        line.sendall(
            asking(
                served,
                "POST /api/message HTTP/1.1",
                "Content-Type: application/json",
                "Transfer-Encoding: chunked",
            )
        )
        with contextlib.suppress(ConnectionError):
            for _ in range(4000):
                line.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        said = b""
        with contextlib.suppress(ConnectionError):
            while part := line.recv(1 << 16):
                said += part
    assert said == b"" or said.startswith(b"HTTP/1.1 413")
    assert api.get("/api/queue/status").status_code == 200


def test_a_long_poll_ends_with_its_client(served: ServedOffice, api: httpx.Client) -> None:
    sent = api.post("/api/message", json={"message": "later", "notBefore": 2**52}).json()["messageId"]
    lines = [line_to(served) for _ in range(200)]
    for line in lines:
        line.sendall(asking(served, f"GET /api/message/{sent}?wait=60 HTTP/1.1"))
    _until(lambda: _api(served)["waiting"] == 200)
    for line in lines:
        line.close()
    _until(lambda: _api(served)["waiting"] == 0, seconds=20)
    api.post(f"/api/message/{sent}/cancel", json={})


@pytest.mark.slow
def test_a_thousand_readers_who_come_and_go_leave_nothing(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served()
    with office.caller() as api:

        def crowd() -> None:
            lines = [line_to(office) for _ in range(1000)]
            for line in lines:
                line.sendall(asking(office, "GET /api/events/stream HTTP/1.1"))
            _until(lambda: _api(office)["readers"] == 1000)
            # one more than may follow is told so
            refused = api.get("/api/events/stream")
            assert (refused.status_code, "api.readers" in refused.json()["error"]) == (503, True)
            for line in lines:
                # half of them without a word
                if line.fileno() % 2:
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                line.close()
            _until(lambda: _api(office)["readers"] == 0)

        crowd()
        files, memory = _open_files(office.pid), _resident(office.pid)
        for _ in range(3):
            crowd()
        _until(lambda: _open_files(office.pid) <= files + 5)
        assert _resident(office.pid) - memory < 16 << 20
        assert api.get("/api/queue/status").status_code == 200
    assert "Traceback" not in office.log()


@pytest.mark.slow
def test_more_silent_connections_than_files_keep_nobody_out(home: Path) -> None:
    """An office that may have few files open, and a stranger without a token who has more."""
    few = ("/bin/sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", sys.executable, "-m", "manydesks")
    office = ServedOffice(home, command=few)
    office.start()
    silent: list[socket.socket] = []
    try:
        with office.caller() as api:
            for _ in range(400):
                silent.append(line_to(office))
                silent[-1].sendall(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n")
            assert api.get("/api/queue/status").status_code == 200
            assert _open_files(office.pid) < 230
            # there is room for a desk
            api.put(
                "/api/agents/desk", json={"name": "Desk", "provider": "rehearsal", "model": None, "sandbox": "none"}
            )
            sent = api.post("/api/message", json={"message": "!say room", "agent": "desk"}).json()["messageId"]
            assert api.get(f"/api/message/{sent}", params={"wait": 20}).json()["status"] == "completed"
        assert "Too many open files" not in office.log()
    finally:
        for line in silent:
            line.close()
        office.kill()


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def _api(office: ServedOffice) -> dict[str, Any]:
    host = office.door.host()
    assert host is not None
    found: dict[str, Any] = host["api"]
    return found


def _until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
