"""Workspaces on a bad day, at desks in real processes: read-only, full, gone, another one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.runner.program import find_program
from manydesks.testing.disk import fill
from manydesks.testing.model import ScriptedModel, ToolCall, Turn
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

Make = Callable[..., Any]
Mount = Callable[..., None]

KEY = "sk-really-secret-key-0123456789"

needs_claude = pytest.mark.skipif(find_program("claude") is None, reason="claude is not installed: `manydesks[dev]`")


def said(message: dict[str, Any]) -> list[str]:
    return [r["text"] for r in message["responses"] if r["operation"] == "message" and r["status"] == "acked"]


def spoil(how: str, workspace: Path, mount: Mount) -> None:
    """Put the workspace on a disk of its own that takes nothing more; what was in it is there again."""
    kept = {file.name: file.read_text() for file in workspace.iterdir() if file.is_file()}
    mount("size=1m", at=workspace)
    for name, text in kept.items():
        (workspace / name).write_text(text)
    if how == "full":
        fill(workspace)
    else:
        mount("remount", "ro", at=workspace)


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
@pytest.mark.parametrize("how", ["read-only", "full"])
def test_a_workspace_that_takes_nothing(make_bench: Make, mount: Mount, how: str, sandbox: str) -> None:
    """Whoever need not write there works as ever, and can send what is there."""
    bench = make_bench(sandbox)
    spoil(how, bench.office.home.workspace("amy"), mount)
    message = bench.ask('!tool send_file {"path": "AGENTS.md"}\n!say sent')
    assert (message["status"], message["attempts"], said(message)[-1]) == ("completed", 1, "sent"), message
    files = [r for r in message["responses"] if r["operation"] == "message"]
    assert len(files) == 2
    bench.unmoved()


@pytest.mark.parametrize("how", ["read-only", "full"])
def test_a_workspace_that_takes_nothing_under_way(make_bench: Make, mount: Mount, how: str) -> None:
    """The runner has the old folder before it; it is ended, and the next one has what is there now."""
    bench = make_bench()
    assert said(bench.ask("!say before")) == ["before"]
    spoil(how, bench.office.home.workspace("amy"), mount)
    bench.until(lambda: bench.kinds("runner_killed"))
    assert "the workspace" in bench.kinds("runner_killed")[0]["data"]["reason"]
    bench.unmoved()
    assert said(bench.ask("!say after")) == ["after"]


def test_doctor_says_that_a_workspace_is_read_only(shell: Shell, mount: Mount) -> None:
    shell.said("agent", "add", "amy")
    spoil("read-only", shell.home / "workspaces" / "amy", mount)
    findings = shell.run("doctor", "--json").stdout
    assert f"Its workspace {shell.home}/workspaces/amy cannot be written." in findings


@pytest.mark.parametrize("how", ["read-only", "full"])
def test_an_agent_cannot_be_added_where_nothing_can_be_written(shell: Shell, mount: Mount, how: str) -> None:
    shell.said("agent", "add", "amy")
    spoil(how, shell.home / "workspaces", mount)
    refusal = shell.refusal("agent", "add", "ben")
    assert f"{shell.home}/workspaces/ben cannot be created" in refusal
    assert ("read-only" if how == "read-only" else "full") in refusal
    assert "ben" not in [agent["id"] for agent in shell.value("agent", "list")]


def test_a_workspace_that_goes_away_while_its_runner_is_idle(make_bench: Make) -> None:
    bench = make_bench()
    assert said(bench.ask("!say before")) == ["before"]
    workspace = bench.office.home.workspace("amy")
    shutil.move(workspace, workspace.with_name("away"))
    bench.until(lambda: bench.kinds("runner_killed"))
    assert bench.kinds("runner_killed")[0]["data"]["reason"] == f"the workspace {workspace} is gone"
    message = bench.ask("!say nobody sits there")
    assert (message["status"], message["attempts"]) == ("dead", 1)
    assert f"{workspace} does not exist" in message["lastError"]
    bench.unmoved()
    shutil.move(workspace.with_name("away"), workspace)
    assert said(bench.ask("!say back")) == ["back"]


@pytest.mark.parametrize("again", [False, True], ids=["gone", "replaced"])
def test_a_workspace_that_goes_away_during_a_run(make_bench: Make, again: bool) -> None:
    """Work there would be lost without a word, so the run ends and is tried again, where there is a folder."""
    bench = make_bench()
    sent = bench.begin("!sleep 6\n!say done")
    workspace = bench.office.home.workspace("amy")
    shutil.move(workspace, workspace.with_name("away"))
    if again:
        workspace.mkdir(0o700)
    bench.unmoved()
    message = bench.message(sent)
    assert message["attempts"] >= 2
    (killed, *_) = bench.kinds("runner_killed")
    assert killed["data"]["reason"] == f"the workspace {workspace} {'was replaced' if again else 'is gone'}"
    if again:
        assert (message["status"], said(message)) == ("completed", ["done"])
    else:
        assert message["status"] == "dead"
        assert "does not exist" in message["lastError"]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(key=KEY) as model:
        yield model


@needs_claude
@pytest.mark.parametrize(("how", "complaint"), [("read-only", "Read-only file system"), ("full", "No space left")])
def test_claude_is_told_by_its_tools(
    make_office: Callable[..., OfficeProcess], model: ScriptedModel, mount: Mount, how: str, complaint: str
) -> None:
    """The real program writes where nothing can be written: the model hears of it, and the turn goes on."""
    office = make_office(retry__max_attempts=2)
    office.home.prepare()
    address = f'[upstreams.lm]\nkind = "anthropic"\nbase_url = "{model.base_url}"\nkey = "lm_key"\n'
    office.home.settings_file.write_text(address)
    office.home.secrets_file.write_text(f'lm_key = "{KEY}"\n')
    office.home.secrets_file.chmod(0o600)
    office.start()
    office.door.ask("agent_add", id="amy", provider="claude", model="scripted", options={"upstream": "lm"})
    spoil(how, office.home.workspace("amy"), mount)
    write = {"command": "echo made > made.txt && sync made.txt", "description": "Write."}
    model.play(Turn(text="", calls=(ToolCall(name="Bash", arguments=write),)), Turn(text="It cannot be written."))
    (message,) = office.ask("write it down", to="amy")["messages"]
    assert (message["status"], said(message)) == ("completed", ["It cannot be written."]), message["lastError"]
    asked = model.requests[-1].asked
    assert asked is not None
    # each shell has its own way to write it
    assert any(complaint.lower() in result.lower() for result in asked.tool_results), asked.tool_results
