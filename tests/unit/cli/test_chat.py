"""`manydesks chat`: whom a line goes to, and what is no line for an agent."""

from __future__ import annotations

import json

import pytest

from manydesks.domain.errors import BadInput, NotAnswering


@pytest.fixture
def office(door, reader, message, response):
    """An office with two agents and a team, where every line is answered at once."""
    reader.people = [{"id": "coder"}, {"id": "lead"}]
    reader.groups = [{"id": "web", "members": ["lead", "coder"]}]
    reader.traces = [{"traceId": "trace_1", "messages": [message(responses=[response()])]}]
    sent = [{"messageId": "console_aaaaaaaa", "agent": "coder", "status": "pending"}]
    door.answers["send"] = {"messageId": "console_aaaaaaaa", "traceId": "trace_1", "messages": sent, "notices": []}
    return door


@pytest.mark.parametrize(
    ("who", "line", "to"),
    [
        ("coder", "fix it", "coder"),
        ("web", "plan it", "web"),
        ("#web", "hello all", "#web"),
        ("coder", "@lead what now", None),
        ("coder", "@web what now", None),
        ("coder", "ask [@lead: this]", None),
        ("coder", "[#web: this]", None),
        ("coder", "@stranger hello", "coder"),
        ("coder", "`[@lead: code]`", "coder"),
        ("coder", "/compact", "coder"),
        (None, "fix it", None),
    ],
)
def test_whom_a_line_goes_to(run, office, who, line, to):
    result = run("chat", *([who] if who else []), input=f"{line}\n")
    assert (result.exit_code, result.stdout) == (0, "Done.\n")
    (verb, args) = office.asked[0]
    assert (verb, args["text"], args["to"]) == ("send", line, to)


def test_lines_that_are_not_sent(run, office, reader):
    reader.open = [{"questionId": "q1", "agent": "coder", "question": "Deploy?", "options": [{"label": "\x1b[2J"}]}]
    reader.earlier = [{"role": "user", "agent": "coder", "sender": "ada", "text": None}]
    result = run("chat", input="\n/help\n/questions\n/history\n/answer q1 1\n/quit\nnever sent\n")
    assert result.exit_code == 0
    assert "/answer ID TEXT" in result.stdout
    assert "q1  coder: Deploy?\n  1 \\x1b[2J\n" in result.stdout
    assert "ada: (erased)" in result.stdout
    assert [(verb, args.get("answer")) for verb, args in office.asked] == [("answer", "1")]


def test_what_goes_wrong_is_said_and_the_next_line_is_sent(run, office):
    office.answers["answer"] = BadInput("There is no option 9, only 1 to 2.")
    result = run("chat", input="/answer q1 9\nhello\n")
    assert result.exit_code == 2
    assert result.stderr == "manydesks: There is no option 9, only 1 to 2.\n"
    assert result.stdout == "Done.\n"


def test_notices_and_lines_that_lead_to_no_message(run, office):
    office.answers["send"] |= {"messages": [], "notices": ["'@coder' is the default now."]}
    result = run("chat", input="@coder\n")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "is the default now" in result.stderr


def test_a_dead_letter_is_not_well(run, office, reader, message):
    reader.traces = [{"traceId": "trace_1", "messages": [message(status="dead", lastError="no key")]}]
    result = run("chat", input="hello\n")
    assert result.exit_code == 1
    assert "failed: no key." in result.stderr


def test_json_is_an_object_for_each_answer(run, office):
    result = run("chat", "--json", input="one\ntwo\n")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["Done.", "Done."]


def test_text_that_is_not_utf_8(run, office):
    result = run("chat", input=b"\xff\nhello\n")
    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr
    assert len(office.asked) == 1


def test_an_office_that_is_down_or_hangs(run, door):
    door.running = None
    assert "`manydesks up` starts it" in run("chat", input="hello\n").stderr
    door.running = NotAnswering(home="/h", pid=7, seconds=5)
    assert run("chat", input="hello\n").exit_code == 1
    assert door.asked == []


def test_a_name_that_nobody_has(run, office):
    result = run("chat", "codr", input="hello\n")
    assert result.exit_code == 2
    assert "did you mean 'coder'?" in result.stderr
