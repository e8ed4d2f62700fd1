"""`manydesks doctor` on real homes: what works, what does not, and what to do."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manydesks.testing.office import OfficeProcess


def doctor(home: Path, **environ: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "manydesks", "--home", str(home), "doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **environ},
        check=False,
    )
    said = json.loads(done.stdout)
    assert said["ok"] == (done.returncode == 0)
    return done.returncode, {finding["what"]: finding for finding in said["findings"]}


def test_a_home_that_was_never_used_is_no_fault(home: Path) -> None:
    code, found = doctor(home)
    assert code == 0
    assert found["home"]["level"] == "note"
    assert found["store"]["level"] == "note"
    assert found["provider rehearsal"]["level"] == "ok"
    assert not home.exists()


def test_what_is_used_has_to_work(office: OfficeProcess, home: Path) -> None:
    assert doctor(home)[0] == 0
    office.door.ask("agent_add", id="amy", provider="anthropic", model="m")
    code, found = doctor(home)
    assert code == 1
    assert "`manydesks secret set anthropic_api_key` stores it" in found["agent amy"]["says"]
    office.home.secrets_file.write_text('anthropic_api_key = "sk-never-shown-1234"\n')
    office.home.secrets_file.chmod(0o600)
    code, found = doctor(home)
    assert code == 0
    assert "sk-never-shown" not in str(found)
    assert found["upstream anthropic"]["level"] == "ok"


def test_a_workspace_that_is_gone(office: OfficeProcess, home: Path) -> None:
    shutil.rmtree(office.home.workspace("assistant"))
    code, found = doctor(home)
    assert code == 1
    assert "is not there" in found["agent assistant"]["says"]


def test_settings_that_are_not_valid_come_first(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "settings.toml").write_text("[sandbox]\nkind = 'docker'\n")
    code, found = doctor(home)
    assert code == 1
    assert 'sandbox.kind is "docker", but must be' in found["settings"]["says"]


def test_a_home_that_others_can_read(home: Path) -> None:
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    code, found = doctor(home)
    assert code == 1
    assert found["home"]["advice"] == f"Run `chmod 700 {home}`."


def test_a_sandbox_that_is_used_and_does_not_work(office: OfficeProcess, home: Path, tmp_path: Path) -> None:
    office.door.ask("agent_add", id="amy", sandbox="bubblewrap")
    (tmp_path / "empty").mkdir()
    code, found = doctor(home, PATH=str(tmp_path / "empty"))
    assert code == 1
    assert found["sandbox bubblewrap"]["level"] == "bad"
    assert "Used by amy." in found["sandbox bubblewrap"]["says"]
    assert "Install the package bubblewrap" in found["sandbox bubblewrap"]["advice"]
    assert "limits" in found["sandbox none"]["says"]


def test_for_people(office: OfficeProcess, home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "manydesks", "--home", str(home), "doctor"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert any(line.startswith("ok    provider rehearsal: Nothing is needed. Used by assistant.") for line in lines)


def test_each_agent_is_looked_at_as_if_it_were_to_start(office: OfficeProcess, home: Path, tmp_path: Path) -> None:
    """Added while all was well, or by hand: each of them would fail with every message."""
    office.home.secrets_file.write_text('anthropic_api_key = "sk-never-shown-1234"\n')
    office.home.secrets_file.chmod(0o600)
    lab = {"base_url": "http://127.0.0.1:9/v1"}
    office.door.ask("agent_add", id="well", provider="openai", model="m", options=lab)
    (tmp_path / "shared").mkdir()
    (office.home.path / "mounts.toml").write_text(f'[[allow]]\npath = "{tmp_path}/shared"\n')
    shared = {"mounts": [f"{tmp_path}/shared"]}
    office.door.ask("agent_add", id="mounted", sandbox="none", options=shared)
    office.door.ask("agent_add", id="linked", sandbox="none")
    code, found = doctor(home)
    assert code == 0, found
    assert "its model server is openai at http://127.0.0.1:9/v1" in found["agent well"]["says"]
    assert "api.openai.com" not in found["provider openai"]["says"]
    assert f"it reads {tmp_path}/shared" in found["agent mounted"]["says"]
    assert "4096 MiB of memory, 1024 processes and threads" in found["limits"]["says"]
    assert "3600 s" in found["limits"]["says"]
    office.stop()
    with contextlib.closing(sqlite3.connect(office.home.office_db)) as db:
        for agent, given in (("well", {"program": "/no/such"}), ("mounted", {"mounts": ["/etc"]})):
            db.execute("update agents set options = ? where id = ?", (json.dumps(given), agent))
        db.execute("update agents set provider = 'anthropic', model = null where id = 'assistant'")
        db.commit()
    workspace = office.home.workspace("linked")
    workspace.rename(tmp_path / "real")
    workspace.symlink_to(tmp_path / "real")
    code, found = doctor(home)
    assert code == 1
    for agent, words in {
        "well": "The provider 'openai' has no option 'program'",
        "mounted": "/etc is never given to a desk",
        "linked": "reached through a symbolic link",
        "assistant": "The agent 'assistant' has no model",
    }.items():
        assert found[f"agent {agent}"]["level"] == "bad"
        assert words in found[f"agent {agent}"]["says"]
    assert found["provider openai"]["level"] == found["provider anthropic"]["level"] == "ok"


def test_one_agent_s_program_is_its_own_fault(office: OfficeProcess, home: Path) -> None:
    office.stop()
    (home / "settings.toml").write_text('[upstreams.lab]\nkind = "anthropic"\nbase_url = "http://127.0.0.1:9"\n')
    office.start()
    for id, options in (("good", {"program": sys.executable}), ("bad", {"program": "/no/such/claude"})):
        options["upstream"] = "lab"
        office.door.ask("agent_add", id=id, provider="claude", sandbox="none", options=options)
    code, found = doctor(home)
    assert code == 1
    assert (found["agent bad"]["level"], found["agent good"]["level"]) == ("bad", "ok")
    assert f"its program is {Path(sys.executable).resolve()}" in found["agent good"]["says"]
    assert "/no/such/claude" in found["agent bad"]["says"]
    assert "/no/such" not in found["provider claude"]["says"]


def test_settings_that_are_not_there_are_not_valid(home: Path) -> None:
    assert doctor(home)[1]["settings"]["says"] == f"There is no {home}/settings.toml: all is as by default."


def test_files_that_others_could_read(office: OfficeProcess, home: Path) -> None:
    assert doctor(home)[1]["files"]["level"] == "ok"
    (home / "office.db").chmod(0o644)
    (home / "sessions").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "manydesks", "--home", str(home), "doctor", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 1
    advice = [found["advice"] for found in json.loads(done.stdout)["findings"] if found["what"] == "files"]
    assert advice == [f"Run `chmod 600 {home}/office.db`.", f"Run `chmod 700 {home}/sessions`."]
    for words in advice:
        subprocess.run(words.split("`")[1], shell=True, check=True)
    assert doctor(home)[0] == 0


def test_the_office_itself_its_store_and_its_clock(office: OfficeProcess, home: Path) -> None:
    found = doctor(home)[1]
    assert found["office"]["says"] == f"It runs (process {office.pid}, version 0.1.0)."
    assert "is sound: 1 agents" in found["store"]["says"]
    assert "survives a power cut" in found["store"]["says"]
    assert "The time zone is " in found["clock"]["says"]
    (home / "settings.toml").write_text("[office]\ndurability = 'crash'\n")
    assert "not a power cut" in doctor(home)[1]["store"]["says"]
    office.stop()
    assert (doctor(home)[1]["office"]["level"], doctor(home)[0]) == ("note", 0)


def test_each_channel_has_a_line(make_office: Callable[..., OfficeProcess], home: Path) -> None:
    office = make_office()
    office.home.prepare()
    office.home.settings_file.write_text("[channels.api]\nenabled = false\n")
    office.start()
    found = doctor(home)[1]
    assert (found["channel console"]["level"], found["channel console"]["says"]) == ("ok", "It is up.")
    assert found["channel api"]["level"] == "note"
    assert "switched off (channels.api.enabled)" in found["channel api"]["says"]
    office.stop()
    assert doctor(home)[1]["channel console"]["says"] == "It is set up, and comes up with the office."
    office.home.settings_file.write_text("[channels.api]\nenable = false\n")
    code, found = doctor(home)
    assert (code, found["channels"]["level"]) == (1, "bad")
    assert "'enable', the nearest name is 'enabled'" in found["channels"]["says"]


def test_settings_that_the_office_did_not_take(office: OfficeProcess, home: Path) -> None:
    (home / "settings.toml").write_text("[retry]\njitter = 9\n")
    office.until(lambda _: office.door.host()["settings"]["refused"])
    # what is wrong with the file comes first, and is the same
    assert "retry.jitter" in doctor(home)[1]["settings"]["says"]


def test_a_store_that_is_damaged(office: OfficeProcess, home: Path) -> None:
    office.stop()
    with (home / "office.db").open("r+b") as file:
        file.seek(4096 * 4)
        file.write(b"\xff" * 4096 * 8)
    code, found = doctor(home)
    assert (code, found["store"]["level"]) == (1, "bad")
    assert "restore a backup" in found["store"]["says"]


def test_an_office_that_hangs(office: OfficeProcess, home: Path) -> None:
    os.kill(office.pid, signal.SIGSTOP)
    try:
        code, found = doctor(home)
    finally:
        os.kill(office.pid, signal.SIGCONT)
    assert (code, found["office"]["level"]) == (1, "bad")
    assert "`kill -9` its process" in found["office"]["advice"]


def test_a_default_agent_that_there_is_not(office: OfficeProcess, home: Path) -> None:
    assert "default agent" not in doctor(home)[1]
    office.home.settings_file.write_text('[office]\ndefault_agent = "ghost"\n')
    code, found = doctor(home)
    assert code == 1
    assert found["default agent"]["level"] == "bad"
    assert "'ghost' does not exist" in found["default agent"]["says"]


def test_a_section_that_its_provider_does_not_take(office: OfficeProcess, home: Path) -> None:
    office.home.settings_file.write_text("[providers.rehearsal]\nscirpt = 'x'\n")
    code, found = doctor(home)
    assert code == 1
    assert found["provider rehearsal"]["level"] == "bad"
    assert "has no option 'scirpt'" in found["provider rehearsal"]["says"]
