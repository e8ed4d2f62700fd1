"""The client for Python against offices that are open."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from manydesks.client import AsyncClient, Client
from manydesks.client.calls import Call
from manydesks.client.values import Event
from manydesks.domain.errors import ApiRefused, NotRunning, OfficeError
from manydesks.testing.api import ServedOffice
from manydesks.testing.office import OfficeProcess

AGENTS = ("ann", "bob")


@pytest.fixture
def mine(served: ServedOffice) -> Iterator[Client]:
    """A client of the office that the tests share, which has two more agents."""
    with Client(home=served.home.path) as client:
        for agent in AGENTS:
            client.request(_put(agent))
        yield client


def _put(agent: str) -> Call:
    body = {"name": agent, "provider": "rehearsal", "model": None}
    return Call(method="PUT", path=f"/api/agents/{agent}", body=body)


def _outgoing(api: httpx.Client) -> int:
    return int(api.get("/api/queue/status").json()["outgoing"])


# where it is


def test_the_open_office_of_a_home_is_found_whatever_its_port(served: ServedOffice) -> None:
    # a free port, by a variable that only the office has
    with Client(home=served.home.path) as client:
        assert client.url == served.url()
        assert client.status()


def test_an_address_needs_its_own_token(served: ServedOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANYDESKS_HOME", str(served.home.path))
    for home in (None, served.home.path):
        with pytest.raises(OfficeError, match="the token must be given too"):
            Client("http://127.0.0.1:1", home=home)
        with pytest.raises(OfficeError, match="the token must be given too"):
            AsyncClient("http://127.0.0.1:1", home=home)
    with Client(served.url(), token="") as nobody, pytest.raises(ApiRefused) as refused:
        nobody.status()
    assert refused.value.status == 401


def test_no_office_or_none_with_an_api_is_one_sentence(
    home: Path, make_served: Callable[..., ServedOffice], make_office: Callable[..., OfficeProcess]
) -> None:
    with pytest.raises(NotRunning, match=r"^No office runs on .*; `manydesks up` starts it\.$"):
        Client(home=home)
    assert not home.exists()
    office = make_office()
    office.start()
    with pytest.raises(OfficeError, match=r"has no API now: it is switched off \(api\.enabled\)\.$"):
        Client(home=home)
    office.stop()
    with socket.create_server(("127.0.0.1", 0)) as other:
        make_served(port=other.getsockname()[1])
        with pytest.raises(OfficeError, match=r"has no API now: port \d+ of 127\.0\.0\.1 is taken"):
            Client(home=home)


def test_an_office_at_all_addresses_is_found_at_the_loopback(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served(api__host="0.0.0.0")
    with Client(home=office.home.path) as client:
        assert client.url.startswith("http://127.0.0.1:")
        assert client.ask("!say here") == "here"


def test_an_office_that_comes_back_at_another_port_is_found_again(
    home: Path, make_served: Callable[..., ServedOffice]
) -> None:
    office = make_served()
    with Client(home=home) as client:
        before, seen = client.url, iter(client.follow(after=0))
        assert next(seen).seq == 1
        office.kill()
        with socket.create_server(("127.0.0.1", httpx.URL(before).port or 0)):
            office.start()  # the port that it had is taken, so it has another one
        assert client.ask("!say again") == "again"
        assert client.url == office.url() != before
        assert next(seen).seq == 2


async def test_for_coroutines_too(home: Path, make_served: Callable[..., ServedOffice]) -> None:
    office = make_served()
    async with AsyncClient(home=home) as client:
        before, seen = client.url, client.follow(after=0)
        assert (await anext(seen)).seq == 1
        office.kill()
        with socket.create_server(("127.0.0.1", httpx.URL(before).port or 0)):
            office.start()
        assert await client.ask("!say again") == "again"
        assert client.url == office.url() != before
        assert (await anext(seen)).seq == 2
        await seen.aclose()


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """By a name that nobody calls the office by."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}.lan",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, certificate


def test_the_certificate_of_this_machines_office_is_trusted_and_no_other(
    home: Path, make_served: Callable[..., ServedOffice], tmp_path: Path
) -> None:
    key, certificate = _certificate(tmp_path, "desk")
    _, other = _certificate(tmp_path, "other")
    office = make_served(api__tls_certificate=certificate, api__tls_key=key)
    home.joinpath("settings.toml").write_text(f'[api]\ntls_certificate = "{certificate}"\ntls_key = "{key}"\n')
    with Client(home=home) as client:
        assert client.url.startswith("https://")
        assert client.ask("!say encrypted") == "encrypted"
    with (
        Client(office.url(), token=office.token()) as stranger,
        pytest.raises(OfficeError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        stranger.status()
    # the office's own comes first in its file; what stands behind it is not believed
    both = tmp_path / "both.pem"
    both.write_bytes(other.read_bytes() + certificate.read_bytes())
    home.joinpath("settings.toml").write_text(f'[api]\ntls_certificate = "{both}"\ntls_key = "{key}"\n')
    with Client(home=home) as client, pytest.raises(OfficeError, match="CERTIFICATE_VERIFY_FAILED"):
        client.status()


# answers


def test_all_the_answers_come_in_the_order_of_the_messages_and_wait_no_more(mine: Client, api: httpx.Client) -> None:
    before = _outgoing(api)
    assert mine.ask("[@ann: !sleep 0.3\n!say from ann] [@bob: !say from bob]") == "from ann\n\nfrom bob"
    assert _outgoing(api) == before


async def test_answers_for_coroutines(mine: Client, served: ServedOffice, api: httpx.Client) -> None:
    before = _outgoing(api)
    async with AsyncClient(home=served.home.path) as client:
        assert await client.ask("[@ann: !say from ann] [@bob: !say from bob]") == "from ann\n\nfrom bob"
        assert _outgoing(api) == before
        sent = await client.send("!say waits", agent="ann", channel="own", sender="ada")
        await client.wait(sent.message_id)
        (answer,) = await client.pending(channel="own")
        assert answer["message"] == "waits"
        await client.acknowledge(answer["id"])
        assert await client.pending(channel="own") == []


def test_the_answers_of_a_hand_off_come_too(mine: Client, api: httpx.Client) -> None:
    before = _outgoing(api)
    assert mine.ask("!say Done. [@bob: !say looks good]", agent="ann") == "Done. → @bob: !say looks good\n\nlooks good"
    assert _outgoing(api) == before


def test_if_one_does_not_answer_nothing_is_taken_from_those_that_wait(mine: Client) -> None:
    with pytest.raises(OfficeError, match=r"is dead: .*no luck"):
        mine.ask("[@ann: !say from ann] [@bob: !fail permanent no luck]", channel="unlucky")
    assert "from ann" in [answer["message"] for answer in mine.pending(channel="unlucky")]


def test_what_waits_for_a_client_comes_until_it_is_acknowledged(mine: Client) -> None:
    sent = mine.send("!say for you", agent="ann", channel="mine")
    mine.wait(sent.message_id)
    (answer,) = mine.pending(channel="mine")
    assert (answer["message"], answer["messageId"]) == ("for you", sent.message_id)
    assert mine.pending(channel="mine") == [answer]
    assert mine.pending(channel="mine", after=answer["id"]) == []
    mine.acknowledge(answer["id"])
    mine.acknowledge(answer["id"])
    assert mine.pending(channel="mine") == []


def test_files_of_this_machine_may_be_larger_than_a_request(mine: Client, served: ServedOffice, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(b"x" * (3 << 20))
    sent = mine.send("look at this", agent="ann", files=[large])
    (file,) = mine.message(sent.message_id)["files"]
    assert (file["name"], file["bytes"]) == ("large.bin", 3 << 20)
    # at an address one may be at the other end of a tunnel, where the path is another file's
    with Client(served.url(), token=served.token()) as far:
        with pytest.raises(ApiRefused) as refused:
            far.send("look at this", agent="ann", files=[large])
        assert refused.value.status == 413
        large.write_bytes(b"small")
        sent = far.send("look at this", agent="ann", files=[large])
        assert far.message(sent.message_id)["files"][0]["bytes"] == 5


def test_without_a_login_files_go_by_what_is_in_them(make_served: Callable[..., ServedOffice], tmp_path: Path) -> None:
    office = make_served()
    office.stop()
    office.home.settings_file.write_text('[api]\nauth = "none"\n')
    office.start()
    (tmp_path / "a.txt").write_text("words")
    with Client(home=office.home.path) as client:
        sent = client.send("look at this", files=[tmp_path / "a.txt"])
        assert client.message(sent.message_id)["files"][0]["name"] == "a.txt"


# following


BREAKS = "one\u2028two\u2029three\u0085four"


def test_words_that_break_lines_elsewhere_stop_nobody(mine: Client) -> None:
    sent = mine.send(f"!fail permanent {BREAKS}", agent="ann")
    mine.wait(sent.message_id)
    found = next(
        event for event in mine.follow(after=0, types=["message_dead"]) if event.data["messageId"] == sent.message_id
    )
    assert found.data["data"]["reason"] == BREAKS


async def test_nor_a_coroutine(mine: Client, served: ServedOffice) -> None:
    sent = mine.send(f"!fail permanent {BREAKS}", agent="ann")
    mine.wait(sent.message_id)
    async with AsyncClient(home=served.home.path) as client:
        seen = client.follow(after=0, trace=sent.trace_id, types=["message_dead"])
        assert (await anext(aiter(seen))).data["data"]["reason"] == BREAKS


class Broken(BaseHTTPRequestHandler):
    """A stream that breaks off after each of its parts, and what it was asked to resume from."""

    parts: tuple[bytes, ...] = ()
    asked: tuple[str | None, ...] = ()

    def do_GET(self) -> None:
        kind = type(self)
        number = len(kind.asked)
        kind.asked += (self.headers["Last-Event-ID"],)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(kind.parts[min(number, len(kind.parts) - 1)])

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def broken(*parts: bytes) -> Iterator[tuple[str, type[Broken]]]:
    kind = type("One", (Broken,), {"parts": parts})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", kind
        finally:
            server.shutdown()
            thread.join()


PARTS = (
    b"retry: 1000\n\nid: 4\nevent: a\ndata: {}\n\nid: 90\n\n",
    b'retry: 1000\n\nevent: progress\ndata: {"text": "so far"}\n\nid: 95\n',
    b"id: 91\nevent: b\ndata: {}\n\n",
)
SEEN = [Event(seq=4, kind="a", data={}), Event(seq=91, kind="b", data={})]


def test_it_resumes_behind_what_was_not_for_it() -> None:
    with broken(*PARTS) as (url, kind), Client(url, token="") as client:
        seen = client.follow(after=3)
        assert [next(seen), next(seen)] == SEEN
    assert kind.asked == ("3", "90", "90")


async def test_a_coroutine_resumes_there_too() -> None:
    with broken(*PARTS) as (url, kind):
        async with AsyncClient(url, token="") as client:
            seen = aiter(client.follow(after=3))
            assert [await anext(seen), await anext(seen)] == SEEN
    assert kind.asked == ("3", "90", "90")
