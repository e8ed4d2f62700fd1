"""Who is let in, by which name, from where, and with what."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.testing.api import ServedOffice
from manydesks.testing.shell import Shell

PAGES_REFUSED = "Pages of other origins may not use the office"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:3777",
        "localhost.evil.example",
        "10.0.0.1",
        "[::2]:80",
        "",
        "127.0.0.1.nip.io",
        "[::1].evil.example",
        "[::1]evil:80",
        "localhost:80.evil.example",
        "127.0.0.1:80:evil.example",
    ],
)
def test_a_name_that_a_stranger_chose_leads_nowhere(api: httpx.Client, host: str) -> None:
    answer = api.get("/api/queue/status", headers={"Host": host})
    # an empty one is refused by the server itself
    assert answer.status_code == (403 if host else answer.status_code)
    assert answer.status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1:3777", "[::1]:3777", "LOCALHOST"])
def test_the_machine_s_own_names_are_known(api: httpx.Client, host: str) -> None:
    assert api.get("/api/queue/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_origins_are_refused_even_with_the_token(api: httpx.Client, headers: dict[str, str]) -> None:
    for answer in (
        api.get("/api/queue/status", headers=headers),
        api.post("/api/message", json={"message": "hello"}, headers=headers),
        api.delete("/api/queue/dead/1", headers=headers),
    ):
        assert answer.status_code == 403
        assert PAGES_REFUSED in answer.json()["error"]
        assert "access-control-allow-origin" not in answer.headers


def test_of_two_origins_none_is_believed(served: ServedOffice, api: httpx.Client) -> None:
    for pair in ((served.url(), "https://evil.example"), (served.url(), served.url())):
        answer = api.get("/api/queue/status", headers=[("Origin", origin) for origin in pair])
        assert (answer.status_code, PAGES_REFUSED in answer.json()["error"]) == (403, True)
    sites = [("Sec-Fetch-Site", site) for site in ("same-origin", "cross-site")]
    assert api.get("/api/queue/status", headers=sites).status_code == 403


def test_a_page_of_the_office_s_own_origin_is_not_refused(served: ServedOffice, api: httpx.Client) -> None:
    headers = {"Origin": served.url(), "Sec-Fetch-Site": "same-origin"}
    assert api.get("/api/queue/status", headers=headers).status_code == 200


def test_no_preflight_is_granted_unless_it_is_configured(api: httpx.Client) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = api.options("/api/message", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_origins_that_the_settings_name_may_use_it(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served(api__origins='["https://desk.example"]', api__names='["office.lan"]')
    with office.caller() as api:
        asked = {"Origin": "https://desk.example", "Access-Control-Request-Method": "POST"}
        preflight = api.options("/api/message", headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://desk.example"
        assert "content-type" in preflight.headers["access-control-allow-headers"]
        answer = api.get(
            "/api/queue/status", headers={"Origin": "https://desk.example", "Sec-Fetch-Site": "cross-site"}
        )
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://desk.example"
        assert api.get("/api/queue/status", headers={"Origin": "https://other.example"}).status_code == 403
        assert api.get("/api/queue/status", headers={"Host": "office.lan"}).status_code == 200
        # a permitted page still needs the token
        del api.headers["Authorization"]
        assert api.get("/api/queue/status", headers={"Origin": "https://desk.example"}).status_code == 401


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"]
)
def test_what_is_not_json_by_its_own_word_is_415(api: httpx.Client, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind is not None else {}
    answer = api.post("/api/message", content=b'{"message": "hello"}', headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]


def test_what_says_nothing_at_all_passes_with_the_token_in_its_header(served: ServedOffice, api: httpx.Client) -> None:
    assert api.post("/api/resume").status_code == 200
    # a content type that is not JSON says something, and so does a body
    assert api.post("/api/resume", headers={"Content-Type": "text/plain"}).status_code == 415
    assert api.post("/api/resume", content=b"{}").status_code == 415
    assert api.post("/api/resume", content=iter([b""])).status_code == 415
    assert api.post("/api/resume", headers={"Origin": "https://evil.example"}).status_code == 403
    # what needs a body says so
    refused = api.post("/api/message")
    assert (refused.status_code, "body" in refused.json()["error"]) == (400, True)


def test_json_with_a_charset_is_json(api: httpx.Client) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert api.post("/api/message", content=b'{"message": "!say hi"}', headers=headers).status_code == 200


FUZZED = {
    "deep": b'{"message": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "not UTF-8": b'{"message": "\xff\xfe"}',
    "a zero byte": b'{"message": "a\x00b"}',
    "an escaped zero byte": b'{"message": "a\\u0000b"}',
    "half a character": b'{"message": "\\ud800"}',
    "half a character of a path": b'{"message": "a", "files": ["/\\ud800"]}',
    "a path without an end": b'{"message": "a", "files": ["' + b"/x" * 3000 + b'"]}',
    "a huge number": b'{"message": "a", "priority": ' + b"9" * 100_000 + b"}",
    "a huge exponent": b'{"message": "a", "priority": 1e999999}',
    "NaN": b'{"message": "a", "priority": NaN}',
    "infinity": b'{"message": "a", "notBefore": Infinity}',
    "cut off": b'{"message": "a',
    "two values": b'{"message": "a"} {}',
    "a number": b"7",
    "null": b"null",
    "empty": b"",
    "blank": b"   ",
    "many keys": json.dumps({"message": "a", **{f"k{n}": n for n in range(50_000)}}).encode(),
}


@pytest.mark.parametrize("what", FUZZED)
def test_bodies_that_make_no_sense_are_400_in_no_time(served: ServedOffice, api: httpx.Client, what: str) -> None:
    began = time.monotonic()
    answer = api.post("/api/message", content=FUZZED[what], headers={"Content-Type": "application/json"})
    assert answer.status_code == (413 if len(FUZZED[what]) > 1 << 20 else 400), answer.text
    assert set(answer.json()) == {"error"}
    assert time.monotonic() - began < 5
    assert "Traceback" not in served.log()


def test_ten_megabytes_are_refused_and_not_kept(served: ServedOffice, api: httpx.Client) -> None:
    before = _peak(served.pid)
    for content in (b"x" * 10_000_000, iter([b"x" * 65_536] * 160)):
        # whoever is refused in the middle of what it says may not hear the answer to the end
        try:
            answer = api.post("/api/message", content=content, headers={"Content-Type": "application/json"})
            assert answer.status_code == 413
        except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
            pass
    assert _peak(served.pid) - before < 8_000_000
    assert api.get("/api/queue/status").status_code == 200


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def test_a_head_without_end_is_refused(served: ServedOffice) -> None:
    url = httpx.URL(served.url())
    with socket.create_connection((url.host, url.port), timeout=20) as line:
        line.sendall(b"GET /api/queue/status HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000)
        assert line.recv(100).startswith(b"HTTP/1.1 400")


def test_wrong_tokens_are_slowed_and_the_right_one_never_is(served: ServedOffice) -> None:
    mine = httpx.HTTPTransport(local_address="127.0.2.1")
    with (
        served.caller(token="y" * 43, transport=mine) as stranger,
        served.caller(transport=httpx.HTTPTransport(local_address="127.0.2.1")) as owner,
    ):
        began = time.monotonic()
        for _ in range(3):
            assert stranger.get("/api/queue/status").status_code == 401
        free = time.monotonic() - began
        began = time.monotonic()
        for _ in range(3):
            assert stranger.get("/api/queue/status").status_code == 401
        slowed = time.monotonic() - began
        assert slowed >= 0.25 + 0.5 + 1.0 > free
        began = time.monotonic()
        assert owner.get("/api/queue/status").status_code == 200
        assert time.monotonic() - began < 0.25


def test_a_new_token_counts_from_the_next_request_on(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served()
    assert (home / "api.token").stat().st_mode & 0o777 == 0o600
    old = office.token()
    with office.caller(token=old) as api:
        assert api.get("/api/queue/status").status_code == 200
        shell = Shell(home)
        assert "new token" in shell.said("token", "rotate", "--yes")
        fresh = shell.said("token", "show").strip()
        assert fresh != old
        assert api.get("/api/queue/status").status_code == 401
        assert api.get("/api/queue/status", headers={"Authorization": f"Bearer {fresh}"}).status_code == 200
    assert old not in office.log()
    assert fresh not in office.log()


def test_a_token_that_others_may_read_lets_nobody_in(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served()
    with office.caller() as api:
        (home / "api.token").chmod(0o644)
        assert api.get("/api/queue/status").status_code == 401
        (home / "api.token").chmod(0o600)
        assert api.get("/api/queue/status").status_code == 200
    assert "is open to other users" in office.log()


def test_without_a_login_on_loopback_when_the_owner_says_so(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served(api__auth="none")
    with httpx.Client(base_url=office.url(), trust_env=False) as anybody:
        assert anybody.get("/api/queue/status").status_code == 200
        # other pages are refused all the same
        assert anybody.get("/api/queue/status", headers={"Origin": "https://evil.example"}).status_code == 403
        assert anybody.get("/api/queue/status", headers={"Host": "evil.example"}).status_code == 403
        assert anybody.post("/api/message", content=b'{"message": "a"}').status_code == 415


def test_without_a_login_and_open_to_others_it_is_refused(home: Path) -> None:
    shell = Shell(home, {**os.environ, "MANYDESKS_API__AUTH": "none", "MANYDESKS_API__HOST": "0.0.0.0"})
    assert "loopback address only" in shell.refusal("up")


def test_another_address_prints_a_warning_and_this_machine_is_not_counted(
    make_served: Callable[..., ServedOffice],
) -> None:
    office = make_served(api__host="0.0.0.0", api__per_minute=5)
    assert "Other machines can reach the office" in office.log()
    assert "not encrypted" in office.log()
    port = httpx.URL(office.url()).port
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=_token(office), trust_env=False) as here:
        assert [here.get("/api/queue/status").status_code for _ in range(10)] == [200] * 10


def _own_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if found.startswith("127.") or found == "0.0.0.0" else found


@pytest.mark.skipif(
    _own_address() is None, reason="no address but the loopback; tests/unit/api/test_gate.py needs none"
)
def test_requests_by_the_machine_s_other_address_are_counted(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served(api__host="0.0.0.0", api__per_minute=6)
    base = f"http://{_own_address()}:{httpx.URL(office.url()).port}"
    with httpx.Client(base_url=base, headers=_token(office), trust_env=False) as there:
        # a path means a file of the machine that it is said on
        refused = there.post("/api/message", json={"message": "look", "files": [__file__]})
        assert (refused.status_code, "on the office's machine" in refused.json()["error"]) == (400, True)
        answers = [there.get("/api/queue/status") for _ in range(7)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 12


def _token(office: ServedOffice) -> dict[str, str]:
    return {"Authorization": f"Bearer {office.token()}"}


def test_https_with_files_of_the_owner(make_served: Callable[..., ServedOffice], tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    office = make_served(api__tls_certificate=certificate, api__tls_key=key)
    assert office.url().startswith("https://")
    with office.caller(verify=ssl.create_default_context(cafile=certificate)) as api:
        assert api.get("/api/queue/status").status_code == 200


def test_files_for_https_that_do_not_fit(make_served: Callable[..., ServedOffice], home: Path, tmp_path: Path) -> None:
    key, certificate, plain = tmp_path / "key.pem", tmp_path / "cert.pem", tmp_path / "plain.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:open sesame", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    files = {"MANYDESKS_API__TLS_CERTIFICATE": str(certificate), "MANYDESKS_API__TLS_KEY": str(key)}
    shell = Shell(home, {**os.environ, "MANYDESKS_API__ENABLED": "true", **files})
    fault = "the key is encrypted; give one without a pass phrase"

    def doctor() -> dict[str, Any]:
        said = json.loads(shell.run("doctor", "--json").stdout)
        (found,) = (found for found in said["findings"] if found["what"] == "api")
        return dict(found)

    before = doctor()
    assert (before["level"], fault in before["says"]) == ("bad", True)
    office = make_served(api__tls_certificate=certificate, api__tls_key=key)
    assert _state(office)["why"] == f"The files for HTTPS cannot be used: {fault}."
    assert office.ask("!say all the same")["messages"][0]["status"] == "completed"
    assert f"is not there: The files for HTTPS cannot be used: {fault}." in shell.said("status")
    found = doctor()
    assert found["says"] == f"The API is not there: The files for HTTPS cannot be used: {fault}."
    assert found["level"] == "bad"
    assert "Mend what api.tls_certificate and api.tls_key name" in found["advice"]
    # as soon as they are mended
    subprocess.run(["openssl", "rsa", "-passin", "pass:open sesame", "-in", key, "-out", plain], check=True)
    plain.replace(key)
    deadline = time.monotonic() + 20
    while _state(office)["url"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert office.url().startswith("https://")


def test_a_port_that_is_taken_keeps_nobody_from_working(make_served: Callable[..., ServedOffice], home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        office = make_served(port=port)
        sentence = f"port {port} of 127.0.0.1 is taken by another program"
        assert sentence in _state(office)["why"]
        assert sentence in office.log()
        assert sentence in Shell(home).said("status")
        assert office.ask("!say all the same")["messages"][0]["status"] == "completed"
    # as soon as it is free
    deadline = time.monotonic() + 20
    while _state(office)["url"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with office.caller() as api:
        assert api.get("/api/queue/status").status_code == 200


def _state(office: ServedOffice) -> dict[str, Any]:
    host = office.door.host()
    assert host is not None
    state: dict[str, Any] = host["api"]
    return state


def test_the_documents_are_open_and_load_nothing(served: ServedOffice) -> None:
    with httpx.Client(base_url=served.url(), trust_env=False) as anybody:
        page = anybody.get("/api/docs")
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script" not in page.text
        assert not re.findall(r"(?:src|href)=['\"](?!#|openapi\.json)|url\(", page.text)
        assert "/api/message" in page.text
        assert anybody.get("/api/openapi.json").json()["openapi"].startswith("3.1")


def test_answers_say_that_they_are_private(api: httpx.Client) -> None:
    for path in ("/api/queue/status", "/nothing", "/api/docs"):
        headers = api.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
