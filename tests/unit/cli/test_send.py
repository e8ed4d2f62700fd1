"""`manydesks send`: what is asked, what is waited for, and with which code it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from manydesks.domain.errors import NotAnswering, UnknownAgent

ACCEPTED = {
    "messageId": "console_aaaaaaaa",
    "traceId": "trace_bbbbbbbb",
    "messages": [{"messageId": "console_aaaaaaaa", "agent": "coder", "status": "pending"}],
    "notices": [],
}


@pytest.fixture(autouse=True)
def accepting(door):
    door.answers["send"] = dict(ACCEPTED)


@pytest.fixture
def shows(reader):
    """What the trace looks like, look by look."""

    def set_traces(*looks):
        reader.traces = [{"traceId": "trace_bbbbbbbb", "messages": list(messages)} for messages in looks]

    return set_traces


class TestAsking:
    def test_the_message_goes_to_the_door(self, run, door):
        result = run("send", "fix it", "--to", "coder", "--priority", "5")
        ((verb, args),) = door.asked
        assert verb == "send"
        assert re.fullmatch(r"console_[a-z0-9]{8}", args.pop("message_id"))
        assert args.pop("sender")
        assert args == {"text": "fix it", "to": "coder", "priority": 5}
        assert (result.exit_code, result.stdout) == (0, "console_aaaaaaaa → coder\n")
        assert result.stderr == ""

    def test_every_call_makes_its_own_id(self, run, door):
        run("send", "a")
        run("send", "a")
        assert door.asked[0][1]["message_id"] != door.asked[1][1]["message_id"]

    def test_a_dash_reads_standard_input(self, run, door):
        run("send", "-", input="zeile eins\nzwei ä\n")
        assert door.asked[0][1]["text"] == "zeile eins\nzwei ä"

    def test_text_that_begins_with_a_dash(self, run, door):
        run("send", "--", "--wait")
        assert door.asked[0][1]["text"] == "--wait"

    @pytest.mark.parametrize("text", ["", "   ", "\n\t"])
    def test_empty_text_is_refused_before_asking(self, run, door, text):
        for result in (run("send", text), run("send", "-", input=text)):
            assert result.exit_code == 2
            assert "The text is empty" in result.stderr
        assert door.asked == []

    def test_input_that_is_no_text(self, run, door):
        result = run("send", "-", input=b"\xff\xfe")
        assert (result.exit_code, door.asked) == (2, [])
        assert result.stderr == "manydesks: The text on standard input is not UTF-8.\n"

    def test_an_argument_that_is_no_text(self, run, door):
        result = run("send", b"caf\xe9".decode("utf-8", "surrogateescape"))
        assert (result.exit_code, door.asked) == (2, [])

    def test_an_endless_input_is_not_read_to_its_end(self, run, door, monkeypatch):
        monkeypatch.setattr("manydesks.cli.body.STDIN_BYTES", 10)
        assert run("send", "-", input="x" * 10).exit_code == 0
        assert run("send", "-", input="x" * 11).exit_code == 2

    def test_the_doors_refusal_is_the_commands(self, run, door):
        door.answers["send"] = UnknownAgent(agent="codr", nearest=" (did you mean 'coder'?)")
        result = run("send", "x", "--to", "codr")
        assert result.exit_code == 2
        assert "There is no agent 'codr' (did you mean 'coder'?)" in result.stderr

    def test_notices_are_told(self, run, door):
        door.answers["send"] = {**ACCEPTED, "notices": ["There is no agent 'codr'; did you mean 'coder'?"]}
        result = run("send", "@codr x")
        assert result.exit_code == 0
        assert result.stderr == "manydesks: There is no agent 'codr'; did you mean 'coder'?\n"

    def test_several_targets(self, run, door):
        held = {"messageId": "console_cccccccc", "agent": "reviewer", "status": "held"}
        door.answers["send"] = {**ACCEPTED, "messages": [*ACCEPTED["messages"], held]}
        assert run("send", "x").stdout == "console_aaaaaaaa → coder\nconsole_cccccccc → reviewer (held)\n"


class TestWithoutAnOffice:
    def test_it_is_stored_and_said(self, run, door):
        door.running = None
        result = run("send", "x")
        assert (result.exit_code, result.stdout) == (0, "console_aaaaaaaa → coder\n")
        assert result.stderr == (
            "manydesks: No office runs; the message is stored and will be answered when it is up.\n"
        )

    def test_json(self, run, door):
        door.running = None
        result = run("send", "x", "--json")
        assert json.loads(result.stdout) == {**ACCEPTED, "responses": [], "status": "stored"}
        assert json.loads(result.stderr)["notice"].startswith("No office runs;")

    def test_json_with_one(self, run):
        assert json.loads(run("send", "x", "--json").stdout)["status"] == "accepted"

    def test_an_office_that_hangs_after_the_message_was_stored(self, run, door):
        door.running = NotAnswering(home="/h", pid=1, seconds=5)
        result = run("send", "x")
        assert (result.exit_code, result.stdout) == (0, "console_aaaaaaaa → coder\n")
        assert "does not answer" in result.stderr

    def test_waiting_goes_on_in_case_one_is_started(self, run, door, shows, message, response):
        door.running = None
        shows([message(status="pending")], [message(responses=[response()])])
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (0, "Done.\n")
        assert "No office runs" in result.stderr


class TestWaiting:
    def test_one_answer_is_exactly_its_text(self, run, shows, message, response):
        shows(
            [message(status="pending")],
            [message(status="processing")],
            [message(responses=[response(text="line 1\n  line 2\x0c")])],
        )
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "line 1\n  line 2\x0c\n", "")

    def test_it_waits_by_the_reader_and_looks_again(self, run, reader, shows, message):
        shows([message(status="pending")], [message()])
        run("send", "x", "--wait", "--timeout", "0.4")
        assert reader.waits == [0.4]

    def test_a_response_is_shown_when_it_is_delivered_not_before(self, run, shows, message, response):
        withdrawn = [response("r1", "first try", "withdrawn")]
        shows(
            [message(status="processing", responses=[response("r1", "first try", "pending")])],
            [message(status="pending", responses=withdrawn)],
            [message(responses=[*withdrawn, response("r2", "second try", "sending")])],
            [message(responses=[*withdrawn, response("r2", "second try", "acked")])],
        )
        assert run("send", "x", "--wait").stdout == "second try\n"

    def test_a_message_is_done_but_its_response_is_not_delivered_yet(self, run, reader, shows, message, response):
        shows([message(responses=[response(status="pending")])], [message(responses=[response()])])
        assert run("send", "x", "--wait").stdout == "Done.\n"
        assert len(reader.waits) == 1

    def test_hand_offs_are_followed_and_named(self, run, shows, message, response):
        first = message(responses=[response("r1", "over to you")])
        second = {"message_id": "internal_2", "agent": "reviewer", "parent": "console_aaaaaaaa"}
        shows(
            [message(status="processing")],
            [first, message(**second, status="pending")],
            [first, message(**second, responses=[response("r2", "fine\nby me")])],
        )
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (0, "coder: over to you\nreviewer:\nfine\nby me\n")

    def test_the_response_to_a_batch_is_shown_once(self, run, shows, message, response):
        shows([message(responses=[response("r1")]), message("console_2", responses=[response("r1")])])
        assert run("send", "x", "--wait").stdout == "Done.\n"

    def test_silence_is_an_answer(self, run, shows, message):
        shows([message()])
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.output) == (0, "")

    def test_a_dead_letter_says_why(self, run, shows, message):
        shows([message(status="pending")], [message(status="dead", lastError="bad key.")])
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            "manydesks: console_aaaaaaaa to coder failed: bad key. "
            "`manydesks queue retry console_aaaaaaaa` tries it again.\n"
        )

    def test_the_offices_own_word_on_a_death_is_not_an_answer(self, run, shows, message, response):
        notice = {**response(text="coder could not answer: bad key"), "operation": "notice"}
        shows([message(status="dead", lastError="bad key", responses=[notice])])
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.count("bad key") == 1

    def test_but_a_refusal_is(self, run, shows, message, response):
        shows([message(responses=[{**response(text="Not allowed here."), "operation": "notice"}])])
        assert run("send", "x", "--wait").stdout == "Not allowed here.\n"

    def test_the_reader_is_closed_also_after_ctrl_c(self, run, reader, shows, message):
        def interrupt():
            raise KeyboardInterrupt

        reader.after_wait = interrupt
        shows([message(status="pending")])
        assert run("send", "x", "--wait").exit_code == 130
        assert reader.closed

    def test_an_address_alone_leads_to_no_message(self, run, door, shows):
        door.running = None
        door.answers["send"] = {**ACCEPTED, "messages": [], "notices": ["coder is the default now."]}
        shows([])
        result = run("send", "@coder", "--wait")
        assert (result.exit_code, result.output) == (0, "manydesks: coder is the default now.\n")

    def test_a_dead_hand_off_counts(self, run, shows, message, response):
        dead = message("internal_2", "reviewer", status="dead", lastError="gone")
        shows([message(responses=[response()]), dead])
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (1, "coder: Done.\n")

    def test_cancelled(self, run, shows, message):
        shows([message(status="cancelled")])
        result = run("send", "x", "--wait")
        assert result.exit_code == 1
        assert "was cancelled" in result.stderr

    def test_held_for_a_person_ends_the_wait(self, run, reader, shows, message):
        shows([message(status="held", holdReason="loop_guard")])
        result = run("send", "x", "--wait")
        assert (result.exit_code, reader.waits) == (1, [])
        assert result.stderr == (
            "manydesks: console_aaaaaaaa to coder is held (loop_guard); "
            "`manydesks queue release console_aaaaaaaa` lets it go on, "
            "`manydesks queue drop console_aaaaaaaa` gives it up.\n"
        )

    def test_what_goes_on_by_itself_is_not_to_be_released(self, run, shows, message):
        shows([message(status="held", holdReason="chain")])
        result = run("send", "x", "--wait", "--timeout", "1")
        assert result.exit_code == 124
        assert result.stderr.startswith("manydesks: console_aaaaaaaa to coder is held (chain).\n")

    def test_a_chain_goes_on_by_itself(self, run, shows, message, response):
        chained = {"message_id": "console_2", "agent": "reviewer"}
        held = message(**chained, status="held", holdReason="chain")
        shows(
            [message(status="processing"), held],
            [message(responses=[response("r1", "draft")]), held],
            [message(responses=[response("r1", "draft")]), message(**chained, responses=[response("r2", "good")])],
        )
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (0, "coder: draft\nreviewer: good\n")
        assert result.stderr == ""

    def test_a_chain_that_a_person_has_to_mend_ends_the_wait(self, run, reader, shows, message, response):
        wait = {"status": "broken", "parts": [{"messageId": "console_1"}]}
        why = "@coder could not answer before it: no ink."
        shows(
            [
                message("console_1", status="dead", lastError="no ink"),
                message(
                    "console_2", agent="reviewer", status="held", holdReason="chain", lastError=why, wait=wait,
                    responses=[{**response("r1", f"reviewer was not asked yet: {why}"), "operation": "notice"}],
                ),
            ]
        )  # fmt: skip
        result = run("send", "x", "--wait")
        assert (result.exit_code, reader.waits, result.stdout) == (1, [], "")
        assert "console_2 to reviewer is held (chain: @coder could not answer before it: no ink);" in result.stderr

    def test_who_waits_for_one_that_a_person_holds_is_not_waited_for(self, run, reader, shows, message):
        wait = {"status": "open", "parts": [{"messageId": "console_1"}]}
        shows(
            [
                message("console_1", status="held", holdReason="loop_guard"),
                message("console_2", status="held", holdReason="chain", wait=wait),
            ]
        )
        result = run("send", "x", "--wait")
        assert (result.exit_code, reader.waits) == (1, [])
        assert "console_2 to coder is held (chain).\n" in result.stderr

    def test_an_answer_that_could_not_be_delivered(self, run, shows, message, response):
        shows([message(responses=[response(status="dead")])])
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (1, "Done.\n")
        assert "The answer r1 is dead: it was not delivered." in result.stderr

    def test_the_time_is_over(self, run, clock, reader, shows, message):
        shows([message(status="processing")])
        began = clock.milliseconds
        result = run("send", "x", "--wait", "--timeout", "2.5")
        assert (result.exit_code, result.stdout) == (124, "")
        assert result.stderr == (
            "manydesks: console_aaaaaaaa has not ended within 2.5 s; "
            "`manydesks trace console_aaaaaaaa` shows how it goes on.\n"
        )
        assert clock.milliseconds - began == 2500

    def test_the_time_is_over_while_it_is_retried(self, run, shows, message):
        shows([message(status="pending", lastError="429")])
        result = run("send", "x", "--wait", "--timeout", "1")
        assert result.exit_code == 124
        assert "has failed so far: 429" in result.stderr

    @pytest.mark.parametrize(
        ("office", "person", "sentence"),
        [
            (True, {}, "The whole office is paused; `manydesks queue resume --all` lets it go on."),
            (False, {"paused": True}, "coder is paused; `manydesks agent resume coder` lets it go on."),
            (False, {"paused": True, "pauseReason": "over budget."}, "coder is paused: over budget."),
        ],
    )
    def test_the_time_is_over_and_somebody_is_paused(self, run, reader, shows, message, office, person, sentence):
        shows([message(status="pending")])
        reader.paused = office
        reader.people = [{"id": "coder", "paused": False, **person}, {"id": "ben", "paused": True}]
        result = run("send", "x", "--wait", "--timeout", "1")
        assert result.exit_code == 124
        assert f"{sentence}\n" in result.stderr
        assert "ben" not in result.stderr

    def test_no_time_at_all_is_one_look(self, run, reader, shows, message):
        shows([message(status="processing")])
        assert run("send", "x", "--wait", "--timeout", "0").exit_code == 124
        assert reader.waits == []

    def test_a_trace_that_is_gone(self, run):
        result = run("send", "x", "--wait")
        assert result.exit_code == 2
        assert "There is no trace or message 'trace_bbbbbbbb'" in result.stderr

    def test_an_erased_answer(self, run, shows, message, response):
        shows([message(responses=[response(text=None)])])
        assert run("send", "x", "--wait").stdout == "(erased)\n"

    def test_json_is_one_value(self, run, shows, message, response):
        shows([message(status="pending")], [message(responses=[response(text="hi \x1b[1m\x9b")])])
        result = run("send", "x", "--wait", "--json")
        assert "\x9b" not in result.stdout
        assert "\x1b" not in result.stdout
        assert result.stdout.count("\n") == 1
        answer = {
            "id": "r1",
            "messageId": "console_aaaaaaaa",
            "agent": "coder",
            "operation": "message",
            "text": "hi \x1b[1m\x9b",
            "files": [],
            "questionId": None,
            "status": "acked",
            "answeredWith": None,
        }
        assert json.loads(result.stdout) == {
            "messageId": "console_aaaaaaaa",
            "traceId": "trace_bbbbbbbb",
            "messages": [{"messageId": "console_aaaaaaaa", "agent": "coder", "status": "completed", "lastError": None}],
            "notices": [],
            "responses": [answer],
            "status": "completed",
        }

    @pytest.mark.parametrize(
        ("changes", "status", "code"),
        [
            ({"status": "dead", "lastError": "x"}, "dead", 1),
            ({"status": "held", "holdReason": "approval"}, "held", 1),
            ({"status": "cancelled"}, "cancelled", 1),
            ({"status": "processing"}, "timeout", 124),
        ],
    )
    def test_json_says_how_it_ended(self, run, shows, message, changes, status, code):
        shows([message(**changes)])
        result = run("send", "x", "--wait", "--json", "--timeout", "1")
        assert (result.exit_code, json.loads(result.stdout)["status"]) == (code, status)
        assert json.loads(result.stderr.splitlines()[-1])["error"]


FILE = {"name": "plan.pdf", "bytes": 2_000_000, "sha256": "ab", "path": "files/ab/plan.pdf"}


class TestWhatCameBack:
    """Whatever an agent sent is seen: files, questions, and an answer that was written for another message too."""

    def test_a_file_has_a_line_with_its_path(self, run, shows, message, response, home):
        shows([message(responses=[{**response(text=""), "files": [FILE]}])])
        assert run("send", "x", "--wait").stdout == f"[file] plan.pdf (2.0 MB): {home.path}/files/ab/plan.pdf\n"
        (told,) = json.loads(run("send", "x", "--wait", "--json").stdout)["responses"]
        assert told["files"] == [FILE]

    def test_a_question_says_how_to_answer_it(self, run, shows, message, response):
        asked = {**response(text="Deploy?"), "operation": "ask_question", "questionId": "question_a"}
        shows([message(responses=[asked])])
        expected = "[question] Deploy?\n(to answer: manydesks answer question_a …)\n"
        assert run("send", "x", "--wait").stdout == expected

    def test_an_answer_to_another_message_that_covers_this_one(self, run, shows, message, response):
        def other(status):
            return {"messageId": "console_first", "traceId": "t", "response": response(text="Both.", status=status)}

        shows([message(answeredWith=other("pending"))], [message(answeredWith=other("acked"))])
        result = run("send", "x", "--wait")
        assert (result.exit_code, result.stdout) == (0, "Both.\n")
        assert result.stderr == "manydesks: console_aaaaaaaa was answered together with console_first.\n"
        shows([message(answeredWith=other("acked"))])
        (told,) = json.loads(run("send", "x", "--wait", "--json").stdout)["responses"]
        assert (told["text"], told["answeredWith"]) == ("Both.", "console_first")


class TestFiles:
    def test_they_are_copied_before_the_office_is_asked(self, run, door, home, tmp_path):
        (tmp_path / "plan.txt").write_text("plan")
        assert run("send", "read it", "--file", str(tmp_path / "plan.txt")).exit_code == 0
        (file,) = door.asked[0][1]["files"]
        assert (file["name"], file["bytes"]) == ("plan.txt", 4)
        assert (home.path / file["path"]).read_text() == "plan"

    def test_what_cannot_be_taken_sends_nothing(self, run, door, tmp_path):
        result = run("send", "x", "--file", str(tmp_path / "none"))
        assert (result.exit_code, door.asked) == (2, [])
        assert "cannot be read" in result.stderr
        many = [part for _ in range(11) for part in ("--file", "f")]
        assert "at most 10 go with one message" in run("send", "x", *many).stderr


ON_A_TERMINAL = """
from manydesks.cli.invocation import Invocation
from manydesks.cli.main import cli
message = {"messageId": "m", "agent": "coder", "status": "completed",
           "responses": [{"id": "r", "status": "acked", "text": "a\\x1b[2Jb"}]}
class Reader:
    def close(self):
        pass
    def trace(self, id):
        return {"traceId": "t", "messages": [message]}
class Door:
    def ask(self, verb, **args):
        return {"messageId": "m", "traceId": "t", "messages": [message], "notices": []}
    def host(self):
        return {}
    def reader(self):
        return Reader()
cli.main(["send", "x", "--wait"], obj=Invocation(door=Door()))
"""


def test_an_answer_cannot_drive_a_real_terminal():
    ours, theirs = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", ON_A_TERMINAL], stdout=theirs, check=True)
        assert os.read(ours, 1000) == b"a\\x1b[2Jb\r\n"
    finally:
        os.close(ours)
        os.close(theirs)


def test_but_a_pipe_gets_what_was_written():
    done = subprocess.run([sys.executable, "-c", ON_A_TERMINAL], capture_output=True, check=True)
    assert done.stdout == b"a\x1b[2Jb\n"
