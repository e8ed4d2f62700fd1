"""Settings over the API: all of them or nothing, judged by what really is, and no login is lost on the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.testing.api import ServedOffice
from manydesks.testing.shell import Shell


def put(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.put("/api/settings", json=body)


def kinds(api: httpx.Client, after: int) -> list[str]:
    return [event["kind"] for event in api.get("/api/events", params={"after": after}).json()["events"]]


def head(api: httpx.Client) -> int:
    return int(api.get("/api/events", params={"limit": 1}).json()["head"])


def test_an_office_that_others_reach_does_not_lose_its_login(
    make_served: Callable[..., ServedOffice], home: Path
) -> None:
    home.mkdir(parents=True)
    file = home / "settings.toml"
    file.write_text('[api]\nhost = "0.0.0.0"\n')
    office = make_served()
    url = httpx.URL(office.url())
    assert url.host == "0.0.0.0"

    def unknown() -> int:
        return httpx.get(f"http://127.0.0.1:{url.port}/api/queue/status", trust_env=False).status_code

    sentence = 'api.auth is "none", and until its next start the office listens at 0.0.0.0'
    with office.caller() as api:
        refused = put(api, api={"auth": "none", "host": "127.0.0.1"}, dispatch={"desks": 5})
        assert (refused.status_code, sentence in refused.json()["error"]) == (400, True)
        assert file.read_text() == '[api]\nhost = "0.0.0.0"\n'
        assert unknown() == 401
        # in two steps, too
        assert put(api, api={"host": "127.0.0.1"}).json()["nextStart"] == ["api.host"]
        assert put(api, api={"auth": "none"}).status_code == 400
        assert unknown() == 401
        # whoever edits the file is told where he looks
        file.write_text('[api]\nhost = "127.0.0.1"\nauth = "none"\n')
        office.until(lambda reader: any(e["kind"] == "settings_refused" for e in reader.events(0, 1000)) or None)
        assert unknown() == 401
        shell = Shell(home)
        assert sentence in shell.said("status")
        assert "whoever has the token is its owner" in shell.value("status")["exposed"]
        found = {one["what"]: one["says"] for one in api.get("/api/doctor").json()["findings"]}
        assert sentence in found["settings in force"]
        assert "whoever has the token is its owner" in found["api"]
    office.stop()
    office.start()
    assert httpx.get(f"{office.url()}/api/queue/status", trust_env=False).status_code == 200


def test_a_secret_of_digits_spoils_no_number(api: httpx.Client) -> None:
    assert put(api, secrets={"pin": "1048576"}).status_code == 200
    try:
        assert api.get("/api/settings").json()["api"]["body_bytes"] == 1_048_576
        before = head(api)
        assert put(api, api={"body_bytes": 10_485_760}).json()["api"]["body_bytes"] == 10_485_760
        assert kinds(api, before) == ["settings_changed", "api_changed"]
        said = "!usage 1048576 1\n!say my pin is 1048576"
        sent = api.post("/api/message", json={"message": said}).json()["messageId"]
        assert api.get(f"/api/message/{sent}", params={"wait": 20}).json()["status"] == "completed"
        tape = api.get(f"/api/runs/{sent}/export")
        assert tape.status_code == 200
        assert tape.json()[-1]["text"] == "my pin is ***"
        assert 1_048_576 in next(step for step in tape.json() if step["type"] == "usage").values()
    finally:
        put(api, secrets={"pin": None}, api={"body_bytes": None})


@pytest.mark.parametrize("body", [{"secrets": {"new": "0123456789"}}, {}])
def test_secrets_that_cannot_be_read_leave_the_settings_alone(
    make_served: Callable[..., ServedOffice], home: Path, body: dict[str, Any]
) -> None:
    office = make_served()
    with office.caller() as api:
        assert put(api, secrets={"old": "old-value"}).status_code == 200
        before, batch = head(api), api.get("/api/settings").json()["dispatch"]["batch"]
        assert not office.home.settings_file.exists()
        office.home.secrets_file.chmod(0o644)
        refused = put(api, dispatch={"batch": batch + 1}, **body)
        assert (refused.status_code, "chmod 600" in refused.json()["error"]) == (400, True)
        office.home.secrets_file.chmod(0o600)
        now = api.get("/api/settings").json()
        assert (now["dispatch"]["batch"], list(now["secrets"])) == (batch, ["old"])
        assert (kinds(api, before), office.home.settings_file.exists()) == ([], False)


def test_the_environment_counts_when_settings_are_judged(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served(api__host="0.0.0.0")
    with office.caller() as api:
        # by the address that is listened at, and by that of the variable
        refused = put(api, api={"auth": "none"}, dispatch={"desks": 5})
        assert (refused.status_code, "loopback" in refused.json()["error"]) == (400, True)
    assert not (home / "settings.toml").exists()
    office.stop()
    office = make_served(api__auth="none")
    with office.caller() as api:
        refused = put(api, api={"host": "0.0.0.0"})
        assert (refused.status_code, "loopback" in refused.json()["error"]) == (400, True)
        assert put(api, dispatch={"desks": 5}).status_code == 200
    office.stop()
    office.start()


@pytest.mark.parametrize("name", ["retry", "upstreams", "channels", "secrets"])
def test_a_whole_section_is_not_null(api: httpx.Client, name: str) -> None:
    refused = put(api, **{name: None})
    assert (refused.status_code, refused.json()["error"]) == (400, f"'{name}' is not allowed: it must be an object.")


def test_a_file_that_is_broken_is_no_fault_of_who_asks(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served()
    with office.caller() as api:
        office.home.settings_file.write_text("[api\n")
        answer = api.get("/api/settings")
        assert (answer.status_code, "settings.toml, line 1" in answer.json()["error"]) == (503, True)
        documented = api.get("/api/openapi.json").json()["paths"]["/api/settings"]["get"]["responses"]
        assert "503" in documented


def test_doctor_says_that_an_office_with_such_settings_does_not_open(home: Path) -> None:
    shell = Shell(home, {**os.environ, "MANYDESKS_API__HOST": "0.0.0.0", "MANYDESKS_API__AUTH": "none"})
    done = shell.run("doctor")
    assert done.returncode == 1
    assert "without a login the office listens on a loopback address only" in done.stdout
    assert "whoever has the token" not in done.stdout
