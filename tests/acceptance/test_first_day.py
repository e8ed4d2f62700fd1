"""Ada's first day with an office of her own, from the first command to the second morning."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from manydesks.testing.shell import Shell


@pytest.fixture
def ada(home: Path) -> Iterator[Shell]:
    quick = {"MANYDESKS_RETRY__BASE_SECONDS": "0.02", "MANYDESKS_RETRY__MAX_ATTEMPTS": "3"}
    ada = Shell(home, {**os.environ, **quick}, person="ada")
    yield ada
    ada.run("down")


@pytest.mark.slow
def test_a_first_day(ada: Shell) -> None:
    # Before breakfast she writes down a thought. No office runs yet; nothing is lost.
    early = ada.run("send", "!say good morning", "--json")
    assert early.returncode == 0
    assert "stored" in early.stderr
    thought = json.loads(early.stdout)["messageId"]

    # She opens the office, and the thought is answered.
    assert ada.said("up", "--detach").startswith("The office is up")
    assert ada.run("status").returncode == 0
    assert ada.said("send", "hello", "--wait") == "Assistant here (rehearsal, no model). ada wrote: hello\n"
    assert "“good morning”" in ada.said("trace", thought)

    # She hires two people and gives both something to do, with one sentence for both.
    ada.said("agent", "add", "writer", "--name", "The writer")
    ada.said("agent", "add", "critic")
    both = ada.said("send", "About rain. [@writer: one line] [@critic: what makes it good?]", "--wait")
    assert "The writer here (rehearsal, no model). ada wrote: About rain.\n\none line" in both
    assert "critic here (rehearsal, no model). ada wrote: About rain.\n\nwhat makes it good?" in both

    # The writer hands a draft to the critic by itself, and Ada sees the whole way of it.
    handed = ada.value("send", "!say A draft. [@critic: !say It rhymes.]", "--to", "writer", "--wait")
    assert [answer["agent"] for answer in handed["responses"]] == ["writer", "critic"]
    assert handed["responses"][1]["text"] == "It rhymes."
    tree = ada.said("trace", handed["traceId"])
    assert tree.index("ada → writer") < tree.index("writer → critic")

    # Somebody stumbles twice and then manages; Ada never notices.
    assert ada.said("send", "!fail_times 2\n!say managed", "--wait") == "managed\n"

    # Somebody cannot do it at all. Ada is told, once, and what to do about it.
    failed = ada.run("send", "!fail permanent the printer is on fire", "--wait")
    assert failed.returncode == 1
    (sentence,) = failed.stderr.splitlines()
    assert "the printer is on fire" in sentence
    (letter,) = ada.value("queue", "dead")
    assert f"`manydesks queue retry {letter['messageId']}`" in sentence

    # She rewrites the letter, and it goes through.
    ada.said("queue", "retry", letter["messageId"], "--message", "!say printed by hand")
    assert ada.value("send", "!say all done?", "--wait")["status"] == "completed"  # waits behind it, in the same lane
    assert "printed by hand" in ada.said("trace", letter["messageId"])
    assert ada.value("queue", "dead") == []

    # Two colleagues begin to thank each other without end; the office stops them.
    politeness = ada.run("send", "!pingpong critic", "--to", "writer", "--wait")
    assert politeness.returncode == 1
    assert "loop_guard" in politeness.stderr
    assert ada.value("queue", "status")["held"] == 1

    # She mistypes a name, and is helped.
    assert "did you mean 'writer'?" in ada.refusal("send", "hello", "--to", "wirter")

    # In the middle of some work the machine's battery dies.
    interrupted = ada.begin("send", "!sleep 1\n!say still here", "--to", "critic", "--wait")
    follower = ada.begin("events", "-f", "--json", "--after", "0", "--type", "message_received")
    assert follower.stdout is not None
    while (
        json.loads(follower.stdout.readline())["agent"] != "critic" or ada.value("queue", "status")["processing"] == 0
    ):
        pass
    os.kill(ada.value("status")["host"]["pid"], signal.SIGKILL)
    follower.send_signal(signal.SIGINT)
    follower.communicate()
    assert ada.run("status").returncode == 1

    # She opens the office again, and the command that was waiting gets its answer.
    ada.said("up", "--detach")
    out, _ = interrupted.communicate(timeout=60)
    assert (interrupted.returncode, out) == (0, "still here\n")

    # In the evening she looks at what the day was: nothing is left, and nothing was done twice.
    counts = ada.value("queue", "status")
    assert (counts["pending"], counts["processing"], counts["outgoing"], counts["dead"]) == (0, 0, 0, 0)
    ledger = ada.value("events")
    assert [event["seq"] for event in ledger] == list(range(1, len(ledger) + 1))
    delivered = [event["data"]["response"] for event in ledger if event["kind"] == "response_delivered"]
    assert len(delivered) == len(set(delivered))
    assert sum(event["kind"] == "message_completed" for event in ledger) == counts["completed"]

    # She lets the critic's held thanks be and closes the office; the next morning everyone is still there.
    assert ada.said("down") == "The office is down.\n"
    ada.said("up", "--detach")
    assert [agent["id"] for agent in ada.value("agent", "list")] == ["assistant", "critic", "writer"]
    assert ada.said("send", "!say good morning again", "--wait") == "good morning again\n"
