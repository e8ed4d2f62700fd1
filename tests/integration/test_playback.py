"""A run of one agent, recorded, and played back by another: the same steps, the same answer, the same failure."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

TEXT = "\n".join(
    [
        '!tool send_message {"text": "on my way"}',
        '!tool nothing {"x": 1}',
        '!tool send_to_agent {"agent": "ben", "text": "!say thanks"}',
        "!usage 1200 80 0.004",
        "!say first line",
        "!say and [@ben: !say handed over]",
    ]
)


def steps(office: OfficeProcess, agent: str) -> list[tuple[str, dict[str, Any]]]:
    (folder,) = office.home.sessions.glob(f"{agent}/*")
    with closing(sqlite3.connect(f"file:{folder}/out/outbound.db?mode=ro", uri=True)) as db:
        found = db.execute("select type, data from steps order by seq").fetchall()
    # the message that failed has another name
    return [(type, {key: value for key, value in json.loads(data).items() if key != "message"}) for type, data in found]


def outcome(office: OfficeProcess, text: str, to: str) -> tuple[Any, ...]:
    messages = office.ask(text, to=to)["messages"]
    first = messages[0]
    # a notice names the agent
    said = [(r["operation"], r["text"], r["status"]) for r in first["responses"] if r["operation"] != "notice"]
    others = sorted((m["agent"].replace(to, "itself"), m["text"], m["status"]) for m in messages[1:])
    (*_, run) = first["runs"]
    used = (run["outcome"], run["inputTokens"], run["outputTokens"], run["costUsd"])
    return first["status"], first["lastError"], said, others, used


@pytest.mark.parametrize("sandbox", [None, "bubblewrap"])
def test_another_agent_plays_it_back(office: OfficeProcess, shell: Shell, sandbox: str | None) -> None:
    for agent in ("amy", "ben"):
        office.door.ask("agent_add", id=agent)
    before = outcome(office, TEXT, "amy")
    assert before[0] == "completed"
    # ben was asked, and told; what he said when asked came back as a message
    assert [(agent, text) for agent, text, _ in before[3]] == [
        ("ben", "!say thanks"),
        ("ben", "first line\nand\n\n!say handed over"),
        ("itself", "@ben: thanks"),
    ]
    reader = office.door.reader()
    runs = [event["run"] for event in reader.events(0, 1000, kinds=["run_usage"]) if event["agent"] == "amy"]
    reader.close()
    assert len(runs) == 2
    tape = shell.said("run", "export", *runs)
    office.door.ask("agent_add", id="echo", sandbox=sandbox, options={"recording": "tapes/amy.jsonl"})
    tapes = office.home.workspace("echo") / "tapes"
    tapes.mkdir()
    (tapes / "amy.jsonl").write_text(tape)
    # whatever it is told
    assert outcome(office, "!fail permanent something else", "echo") == before
    assert steps(office, "echo") == steps(office, "amy")
    # and again
    assert outcome(office, "once more", "echo") == before


@pytest.mark.parametrize(
    "text", ["!tool nothing {}\n!fail permanent no such page", "!usage 1 2\n!fail transient too busy"]
)
def test_a_failure_is_played_back(make_office: Callable[..., OfficeProcess], shell: Shell, text: str) -> None:
    office = make_office(retry__max_attempts=2)
    office.start()
    office.door.ask("agent_add", id="amy")
    before = outcome(office, text, "amy")
    assert before[0] == "dead"
    id = shell.value("queue", "dead")[0]["messageId"]
    office.door.ask("agent_add", id="echo", options={"recording": "run.jsonl"})
    (office.home.workspace("echo") / "run.jsonl").write_text(shell.said("run", "export", id))
    assert outcome(office, "hello", "echo") == before
    assert steps(office, "echo") == steps(office, "amy")


def test_a_message_stands_for_its_last_run(office: OfficeProcess, shell: Shell) -> None:
    (message,) = office.ask("!fail_times 1\n!say second time")["messages"]
    lines = shell.value("run", "export", message["messageId"])
    assert lines == [{"type": "answer", "text": "second time", "messages": 1}]


def test_a_run_that_there_is_not(office: OfficeProcess, shell: Shell) -> None:
    assert "There is no run 'run_nowhere1'" in shell.refusal("run", "export", "run_nowhere1")


def test_a_run_whose_files_are_gone(office: OfficeProcess, shell: Shell) -> None:
    (message,) = office.ask("!crash_not")["messages"]
    assert office.stop() == 0
    for file in office.home.sessions.glob("*/*/out/outbound.db"):
        file.unlink()
    assert "its session's files are gone" in shell.refusal("run", "export", message["messageId"])
