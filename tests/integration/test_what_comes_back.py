"""Whatever an agent sends reaches the person who waits, through a real office and the real command."""

from __future__ import annotations

import json
import re
from pathlib import Path

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def test_a_file_of_the_agent_is_shown_where_it_is(office: OfficeProcess, shell: Shell) -> None:
    (office.home.workspace("assistant") / "plan.txt").write_text("the plan")
    asked = '!tool send_file {"path": "plan.txt"}\n!say There.'
    done = shell.run("send", "-", "--wait", text=asked)
    assert done.returncode == 0, done.stderr
    (path,) = re.findall(r"^\[file\] plan\.txt \(8 bytes\): (.+)$", done.stdout, re.MULTILINE)
    assert Path(path).read_text() == "the plan"
    events = json.loads(shell.said("trace", _last(shell), "--json"))
    (message,) = events["messages"]
    assert [file["name"] for response in message["responses"] for file in response["files"]] == ["plan.txt"]
    assert path in shell.said("trace", message["messageId"])
    assert path in shell.said("queue", "show", message["messageId"])


def test_a_question_can_be_answered_from_what_is_shown(office: OfficeProcess, shell: Shell) -> None:
    question = {"question": "Deploy?", "options": ["yes", "no"]}
    waiting = shell.begin("send", f"!tool ask_user_question {json.dumps(question)}", "--wait")
    try:
        assert waiting.stdout is not None
        shown = [waiting.stdout.readline()]
        while "to answer" not in shown[-1]:
            shown.append(waiting.stdout.readline())
            assert shown[-1], shown
        (id,) = re.findall(r"manydesks answer (\S+) …", shown[-1])
        refused = shell.run("answer", id, "3")
        assert (refused.returncode, "only 1 to 2" in refused.stderr) == (2, True)
        assert shell.run("answer", id, "2").returncode == 0
        rest, _ = waiting.communicate(timeout=30)
        assert waiting.returncode == 0
        assert re.search(r"ask_user_question gave: .*\bno\b", rest), rest
    finally:
        waiting.kill()
        waiting.wait()


def test_a_file_of_the_person_is_at_the_desk_also_when_no_office_ran(
    office: OfficeProcess, shell: Shell, tmp_path: Path
) -> None:
    assert office.stop() == 0
    (tmp_path / "notes.txt").write_text("remember")
    sent = shell.value("send", "read it", "--file", str(tmp_path / "notes.txt"))
    (tmp_path / "notes.txt").unlink()
    office.start()
    office.trace(sent["traceId"])
    (copy,) = office.home.sessions.glob("assistant/*/in/inbox/*/notes.txt")
    assert (copy.parent.name, copy.read_text()) == (sent["messageId"], "remember")


def _last(shell: Shell) -> str:
    (*_, last) = json.loads(shell.said("queue", "list", "--json"))
    return str(last["messageId"])
