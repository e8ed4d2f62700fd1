from __future__ import annotations

import json

import pytest

from manydesks.domain.errors import WrongState

LETTER = {
    "id": 7,
    "messageId": "console_dddddddd",
    "agent": "coder",
    "sender": "rene",
    "text": "fix\nit",
    "reason": "bad key",
    "attempts": 5,
    "at": None,
}

HELD = {
    "id": 8,
    "messageId": "internal_hhhhhhhh",
    "agent": "critic",
    "sender": "coder",
    "text": "your\nturn",
    "reason": "loop_guard",
    "detail": "20 hops",
    "at": None,
}


def test_status(run, reader):
    reader.counts["dead"] = 2
    lines = run("queue", "status").stdout.splitlines()
    assert lines[0].split() == ["STATE", "MESSAGES"]
    assert ["dead", "2"] in [line.split() for line in lines]


def test_dead(run, reader):
    reader.letters = [LETTER, {**LETTER, "agent": "other", "messageId": "m2"}]
    assert run("queue", "dead", "--agent", "coder").stdout.splitlines() == [
        "ID                AGENT  FROM  DIED  ATTEMPTS  REASON   TEXT",
        "console_dddddddd  coder  rene  -            5  bad key  fix it",
    ]
    assert json.loads(run("queue", "dead", "--json").stdout) == reader.letters


def test_none_dead(run):
    result = run("queue", "dead")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "manydesks: There are no dead letters.\n"


def test_held(run, reader):
    reader.waiting = [HELD, {**HELD, "agent": "other", "messageId": "m2"}]
    assert run("queue", "held", "--agent", "critic").stdout.splitlines() == [
        "ID                 AGENT   FROM   SINCE  REASON      DETAIL   TEXT",
        "internal_hhhhhhhh  critic  coder  -      loop_guard  20 hops  your turn",
    ]
    assert json.loads(run("queue", "held", "--json").stdout) == reader.waiting


def test_none_held(run):
    result = run("queue", "held")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "manydesks: No messages are held.\n"


@pytest.mark.parametrize("command", ["dead", "held"])
class TestOfOneAgent:
    def test_nobody_has_that_name(self, run, reader, command):
        reader.people = [{"id": "coder"}]
        result = run("queue", command, "--agent", "codr", "--json")
        assert (result.exit_code, result.stdout) == (2, "")
        said = json.loads(result.stderr)["error"]
        assert said.startswith("There is no agent 'codr' (did you mean 'coder'?);")

    def test_somebody_without_letters(self, run, reader, command):
        reader.people = [{"id": "coder"}]
        result = run("queue", command, "--agent", "coder", "--json")
        assert (result.exit_code, result.stdout) == (0, "[]\n")

    def test_somebody_who_left_letters_behind(self, run, reader, command):
        reader.letters, reader.waiting = [{**LETTER, "agent": "gone"}], [{**HELD, "agent": "gone"}]
        result = run("queue", command, "--agent", "gone", "--json")
        assert [letter["agent"] for letter in json.loads(result.stdout)] == ["gone"]


def test_release(run, door):
    door.answers["release"] = {"messageId": "m1", "status": "pending"}
    assert run("queue", "release", "m1").stdout == "m1 is pending now.\n"
    assert json.loads(run("queue", "release", "m1", "--json").stdout) == {"messageId": "m1", "status": "pending"}
    assert door.asked == [("release", {"id": "m1"})] * 2


def test_release_of_what_is_not_held(run, door):
    door.answers["release"] = WrongState(what="The message 'm1'", status="dead", allowed="a held one", act="released")
    result = run("queue", "release", "m1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "manydesks: The message 'm1' is dead; only a held one can be released.\n"


def test_retry(run, door):
    assert run("queue", "retry", "m1").stdout == "m1 is pending again.\n"
    run("queue", "retry", "m1", "--message", "better")
    run("queue", "retry", "m1", "--message", "-", input="from stdin\n")
    assert [args["text"] for _, args in door.asked] == [None, "better", "from stdin"]


def test_retry_with_nothing(run, door):
    assert run("queue", "retry", "m1", "--message", "").exit_code == 2
    assert door.asked == []


def test_drop(run, door):
    assert run("queue", "drop", "m1").exit_code == 2
    assert door.asked == []
    assert run("queue", "drop", "m1", "--yes").stdout == "m1 dropped.\n"
    assert door.asked == [("drop", {"id": "m1"})]


def test_status_names_who_is_paused(run, reader):
    reader.people = [{"id": "coder", "paused": True}, {"id": "critic", "paused": False}]
    assert run("queue", "status").stdout.splitlines()[-1] == "paused: coder"
    assert json.loads(run("queue", "status", "--json").stdout) == {
        **reader.counts,
        "paused": ["coder"],
        "officePaused": False,
    }
    assert "paused" not in run("queue", "status", "--agent", "critic").stdout


def test_status_of_nobody(run, reader):
    reader.people = [{"id": "coder", "paused": False}]
    assert "There is no agent 'codr' (did you mean 'coder'?)" in run("queue", "status", "--agent", "codr").stderr


LISTED = {
    "id": 7,
    "messageId": "m7",
    "agent": "coder",
    "sender": "rene",
    "status": "held",
    "attempts": 0,
    "reason": "loop_guard",
    "createdAt": None,
    "updatedAt": None,
    "text": "fix\nit",
}


def test_list(run, reader):
    reader.listed = [LISTED]
    result = run("queue", "list", "--agent", "coder", "--state", "held", "--after", "3", "--limit", "1")
    assert result.stdout.splitlines() == [
        "NO  ID  AGENT  FROM  STATE  SINCE  REASON      TEXT",
        " 7  m7  coder  rene  held   -      loop_guard  fix it",
    ]
    assert result.stderr == "manydesks: There may be more: --after 7 shows the next page.\n"
    assert reader.asked == [{"agent": "coder", "state": 2, "after": 3, "limit": 1}]
    assert json.loads(run("queue", "list", "--json").stdout) == [LISTED]


def test_list_of_nothing(run):
    result = run("queue", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "manydesks: There are no such messages.\n")


@pytest.mark.parametrize("wrong", [("--state", "lost"), ("--limit", "0"), ("--after", "-1")])
def test_list_says_what_is_allowed(run, wrong):
    assert run("queue", "list", *wrong).exit_code == 2


@pytest.fixture
def shown(message, response):
    more = {"traceId": "t1", "holdReason": None, "priority": 0, "notBefore": None, "updatedAt": None}
    return message(**more, agentPaused=False, before=0, waitsFor=[], responses=[{**response(), "channel": "console"}])


def test_show(run, reader, shown):
    run_ = {"attempt": 1, "outcome": "failed", "reason": "bad\nkey", "durationMs": 1500}
    before = [{"messageId": "m1", "status": "processing", "sender": "x"}]
    reader.shown = {
        **shown, "status": "pending", "lastError": "bad key", "before": 3, "waitsFor": before, "agentPaused": True,
        "text": "two\nlines\x1b", "runs": [run_],
    }  # fmt: skip
    lines = run("queue", "show", "m2").stdout.splitlines()
    assert "to       coder (paused)" in lines
    assert "state    pending  since -" in lines
    assert "error    bad key" in lines
    assert "lane     behind 3 messages: m1 (processing) and 2 more" in lines
    assert "run 1    failed  1.5 s  bad key" in lines
    assert lines[-5:] == ["two", "lines\\x1b", "", "answer r1 to console: acked", "Done."]
    assert json.loads(run("queue", "show", "m2", "--json").stdout) == reader.shown


def test_show_what_came_with_it_and_what_answered_it(run, reader, shown, response, home):
    file = {"name": "plan.pdf", "bytes": 5, "sha256": "ab", "path": "files/ab/plan.pdf"}
    other = {"messageId": "m1", "traceId": "t", "response": {**response(text=""), "files": [file]}}
    run_ = {"attempt": 1, "outcome": "completed", "reason": None, "durationMs": 1500, "message": "m1", "messages": 2}
    reader.shown = {**shown, "responses": [], "files": [file], "answeredWith": other, "runs": [run_]}
    lines = run("queue", "show", "m2").stdout.splitlines()
    assert "file     plan.pdf (5 bytes): files/ab/plan.pdf" in lines
    assert "run 1    completed  1.5 s  together with 1 other message" in lines
    assert lines[-2:] == [
        "answered together with m1, by answer r1:",
        f"[file] plan.pdf (5 bytes): {home.path}/files/ab/plan.pdf",
    ]


def test_show_the_next_and_a_held_one(run, reader, shown):
    reader.shown = {**shown, "status": "pending", "responses": []}
    assert "lane     next in its lane" in run("queue", "show", "m").stdout
    reader.shown = {**shown, "status": "held", "holdReason": "loop_guard"}
    said = run("queue", "show", "m").stdout
    assert "held for loop_guard" in said
    assert "lane" not in said


def test_show_what_is_not_there(run):
    result = run("queue", "show", "m1")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "manydesks: There is no message 'm1'.\n")


def test_cancel(run, door):
    door.answers["cancel"] = {"cancelled": 1, "stopped": 0, "left": 0, "more": False}
    assert run("queue", "cancel", "m1").stdout == "1 message cancelled.\n"
    assert json.loads(run("queue", "cancel", "m1", "--json").stdout) == {
        "id": "m1", "agent": None, "cancelled": 1, "stopped": 0, "left": 0,
    }  # fmt: skip
    assert door.asked == [("cancel", {"id": "m1", "agent": None, "everything": False})] * 2
    door.answers["cancel"] = {"cancelled": 3, "stopped": 2, "left": 0, "more": False}
    assert run("queue", "cancel", "--agent", "coder", "--yes").stdout == "3 messages cancelled; 2 runs told to end.\n"
    door.answers["cancel"] = {"cancelled": 0, "stopped": 0, "left": 2, "more": False}
    left = run("queue", "cancel", "--all", "--yes")
    assert (left.exit_code, left.stdout) == (1, "There was nothing to cancel.\n")
    assert left.stderr.startswith("manydesks: 2 messages ran when the office ended")


@pytest.mark.parametrize("arguments", [[], ["m1", "--all"], ["m1", "--agent", "coder"], ["--agent", "coder", "--all"]])
def test_cancel_wants_one_thing(run, door, arguments):
    result = run("queue", "cancel", *arguments, "--yes")
    assert (result.exit_code, door.asked) == (2, [])
    assert result.stderr == "manydesks: Say what to cancel: one ID, --agent AGENT, or --all.\n"


def test_everything_is_cancelled_only_by_a_word(run, door):
    for arguments in (["--all"], ["--agent", "coder"]):
        assert run("queue", "cancel", *arguments).exit_code == 2
    assert door.asked == []


def test_the_office_is_paused_and_resumed(run, door, reader):
    door.answers["pause_office"] = {"office": True, "paused": True, "changed": True}
    said = "The office is paused; nothing begins until `manydesks queue resume --all`.\n"
    assert run("queue", "pause", "--all").stdout == said
    door.answers["resume_office"] = {"office": True, "paused": False, "changed": True}
    assert run("queue", "resume", "--all").stdout == "The office works again.\n"
    for arguments in ([], ["coder", "--all"]):
        assert run("queue", "pause", *arguments).exit_code == 2
        assert run("queue", "resume", *arguments).exit_code == 2


def test_pause_and_resume(run, door):
    door.answers["pause"] = {"agent": "coder", "paused": True, "changed": True}
    assert run("queue", "pause", "coder").stdout == (
        "coder is paused; its messages wait until `manydesks queue resume coder`.\n"
    )
    door.answers["pause"] = {"agent": "coder", "paused": True, "changed": False}
    assert run("queue", "pause", "coder").stdout.startswith("coder is paused already;")
    door.answers["resume"] = {"agent": "coder", "paused": False, "changed": True}
    assert run("queue", "resume", "coder").stdout == "coder works again.\n"
    door.answers["resume"] = {"agent": "coder", "paused": False, "changed": False}
    assert run("queue", "resume", "coder").stdout == "coder was not paused.\n"
    assert json.loads(run("queue", "resume", "coder", "--json").stdout) == door.answers["resume"]


class TestPrune:
    @pytest.fixture
    def step(self):
        removed = {"events": 1200, "messages": 3, "responses": 4, "runs": 2, "arrivals": 0, "bodies": 1}
        return {**removed, "first": 1201, "archived": 1200, "more": False, "waits_for_archive": True}

    def test_what_went_and_what_waits(self, run, door, reader, step):
        door.answers["prune"] = step
        reader.counts["dead"] = 2
        lines = run("queue", "prune").stdout.splitlines()
        assert lines[:2] == ["ROWS       PRUNED", "events      1,200"]
        assert lines[-3:] == [
            "The ledger begins at event 1,201.",
            "The lake covers the ledger up to event 1,200; what is old and not in it waits for "
            "`manydesks pipeline run`.",
            "2 dead letters keep their traces; `manydesks queue drop` lets go of one.",
        ]

    def test_steps_are_added_up(self, run, door, step):
        answers = [{**step, "more": True}, {**step, "waits_for_archive": False}]
        door.ask = lambda verb: answers.pop(0)
        shown = json.loads(run("queue", "prune", "--json").stdout)
        assert shown == {
            "events": 2400, "messages": 6, "responses": 8, "runs": 4, "arrivals": 0, "bodies": 2, "first": 1201,
            "archived": 1200, "dead": 0, "waitsForArchive": False,
        }  # fmt: skip
        assert answers == []

    def test_nothing_waits(self, run, door, step):
        door.answers["prune"] = {**step, "waits_for_archive": False}
        assert "Everything from there on is younger than retention.days, by the" in run("queue", "prune").stdout
