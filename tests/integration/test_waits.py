"""Chains, joins and rooms, through the real command line and a real host that is killed at bad moments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


@pytest.fixture
def staffed(office: OfficeProcess, shell: Shell) -> OfficeProcess:
    for agent in ("writer", "critic", "lead"):
        shell.said("agent", "add", agent)
    return office


def ended(message: str, *statuses: str) -> Callable[[Reader], Any]:
    def look(reader: Reader) -> Any:
        found = reader.message(message)
        return found if found is not None and found["status"] in statuses else None

    return look


def test_a_chain_is_waited_for_and_shown(staffed: OfficeProcess, shell: Shell) -> None:
    done = shell.value("send", "About rain. [@writer: !say a line] -> [@critic: review it]", "--wait")
    assert done["status"] == "completed"
    first, second = done["responses"]
    assert first["text"] == "a line"
    assert second["text"].endswith("About rain.\n\nreview it\n\n@writer answered:\n\n> a line")
    (_, step) = shell.value("trace", done["traceId"])["messages"]
    assert step["wait"]["status"] == "complete"
    assert [part["agent"] for part in step["wait"]["parts"]] == ["writer"]
    kinds = [event["kind"] for event in _events(shell, done["traceId"])]
    assert kinds.index("message_held") < kinds.index("message_completed") < kinds.index("message_released")


def test_an_agents_chain_is_carried_out_as_well(staffed: OfficeProcess, shell: Shell) -> None:
    text = "!say A plan. [@critic: !say too short] -> [@lead: decide]"
    done = shell.value("send", text, "--to", "writer", "--wait")
    assert [answer["agent"] for answer in done["responses"]] == ["writer", "critic", "lead"]
    assert done["responses"][0]["text"] == "A plan. → @critic: !say too short\n→ then @lead: decide"
    assert done["responses"][2]["text"].endswith("@critic answered:\n\n> too short")


def test_a_join_is_told_of_the_one_that_failed(staffed: OfficeProcess, shell: Shell) -> None:
    text = "[@writer: !say one] [@critic: !fail permanent the printer is on fire] => [@lead: sum up]"
    failed = shell.run("send", text, "--wait", "--json")
    assert failed.returncode == 1
    done = json.loads(failed.stdout)
    assert done["status"] == "dead"
    (summary,) = [answer["text"] for answer in done["responses"] if answer["agent"] == "lead"]
    assert "@writer answered:\n\n> one" in summary
    assert "@critic did not answer: the printer is on fire" in summary


def test_a_broken_chain_goes_on_when_what_broke_it_is_tried_again(staffed: OfficeProcess, shell: Shell) -> None:
    failed = shell.run("send", "[@writer: !fail permanent no ink] -> [@critic: review it]", "--wait", "--json")
    assert failed.returncode == 1
    part, step = (message["messageId"] for message in json.loads(failed.stdout)["messages"])
    assert f"{part} to writer failed: no ink." in failed.stderr
    assert f"{step} to critic is held (chain: @writer could not answer before it: no ink." in failed.stderr
    # both are told: that the part is dead, and that somebody waits for it
    responses = shell.value("trace", part)["messages"]
    assert [len(message["responses"]) for message in responses] == [1, 1]
    shell.said("queue", "retry", part, "--message", "!say with a pencil")
    step_now = staffed.until(ended(step, "completed"))
    assert step_now["responses"][-1]["text"].endswith("@writer answered:\n\n> with a pencil")


def test_giving_up_what_broke_it_ends_the_chain(staffed: OfficeProcess, shell: Shell) -> None:
    failed = shell.run("send", "[@writer: !fail permanent no ink] -> [@critic: review it]", "--wait", "--json")
    part, step = (message["messageId"] for message in json.loads(failed.stdout)["messages"])
    shell.said("queue", "drop", part, "--yes")
    assert staffed.until(ended(step, "cancelled"))["lastError"] == "@writer did not answer before it: it was dropped."


def test_a_step_may_be_let_go_on_with_what_there_is(staffed: OfficeProcess, shell: Shell) -> None:
    shell.said("queue", "pause", "writer")
    sent = shell.value("send", "[@writer: one] => [@critic: go on]")
    step = sent["messages"][1]["messageId"]
    shell.said("queue", "release", step)
    assert staffed.until(ended(step, "completed"))["responses"][-1]["text"].endswith("@writer has not answered yet.")


def test_who_waits_too_long_is_told(make_office: Callable[..., OfficeProcess], shell: Shell) -> None:
    office = make_office(limits__wait_seconds=1)
    office.start()
    for agent in ("writer", "critic", "lead"):
        shell.said("agent", "add", agent)
    chain = shell.value("send", "[@writer: !sleep 30] -> [@critic: two]")["messages"][1]["messageId"]
    join = shell.value("send", "[@writer: one] => [@lead: two]")["messages"][1]["messageId"]
    dead = office.until(ended(chain, "dead"))
    assert dead["lastError"].startswith("it waited 1 s in vain. @writer has not answered")
    assert "dead letter" in dead["responses"][0]["text"]
    assert office.until(ended(join, "completed"))["wait"]["status"] == "timed_out"
    office.kill()  # closing it would wait for the one that sleeps


def test_kills_between_part_and_step_lose_nothing_and_double_nothing(staffed: OfficeProcess, shell: Shell) -> None:
    shell.said("queue", "pause", "critic")
    shell.said("queue", "pause", "lead")
    text = "[@writer: !sleep 0.5\n!say a line] -> [@critic: !say fine] [@writer: one] => [@lead: sum up]"
    sent = shell.value("send", text)
    part, step, join = (message["messageId"] for message in sent["messages"])
    staffed.until(ended(part, "processing"))
    staffed.kill()  # while the part runs
    staffed.start()
    staffed.until(ended(part, "completed"))
    staffed.kill()  # the step was released with it, and has not begun
    assert [message["status"] for message in shell.value("trace", part)["messages"]] == ["completed", "pending", "held"]
    staffed.start()
    shell.said("queue", "resume", "critic")
    staffed.until(ended(step, "completed"))
    staffed.kill()
    staffed.start()
    shell.said("queue", "resume", "lead")
    summary = staffed.until(ended(join, "completed"))["responses"][-1]["text"]
    assert "@critic answered:\n\n> fine" in summary
    events = _events(shell, sent["traceId"])
    for kind, times in (("message_released", 2), ("message_completed", 3)):
        assert len([event for event in events if event["kind"] == kind]) == times


def test_a_room(staffed: OfficeProcess, shell: Shell) -> None:
    shell.said("team", "add", "press", "--leader", "lead", "--member", "writer,critic")
    done = shell.value("send", "[#press: !say here]", "--wait")
    assert done["status"] == "completed"
    assert sorted(answer["agent"] for answer in done["responses"]) == ["critic", "lead", "writer"]
    assert all(message["messageId"].startswith("chatroom_") for message in done["messages"])
    # an agent posts by a tag of its own, and the others hear it
    done = shell.value("send", "!say [#press: !say thanks]", "--to", "writer", "--wait")
    assert done["responses"][0]["agent"] == "writer"
    assert sorted(answer["agent"] for answer in done["responses"][1:]) == ["critic", "lead"]
    posts = [(post["sender"], post["text"]) for post in shell.value("team", "room", "press")]
    assert posts == [("ada", "!say here"), ("writer", "!say thanks")]


def _events(shell: Shell, trace: str) -> list[dict[str, Any]]:
    return list(shell.value("events", "--trace", trace))
