"""What a person gets: every command against a real office."""

from __future__ import annotations

import json
import os
import signal

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def test_up_makes_an_office_with_one_agent(shell: Shell) -> None:
    assert shell.said("up", "--detach").startswith("The office is up (process ")
    (agent,) = shell.value("agent", "list")
    assert (agent["id"], agent["provider"]) == ("assistant", "rehearsal")
    assert (shell.home / agent["workspace"]).is_dir()


def test_an_office_makes_its_first_agent_once(shell: Shell, office: OfficeProcess) -> None:
    shell.said("agent", "add", "coder")
    shell.said("agent", "remove", "assistant", "--yes")
    office.stop()
    office.start()
    assert [agent["id"] for agent in shell.value("agent", "list")] == ["coder"]


@pytest.mark.usefixtures("office")
def test_an_answer_names_the_agent_and_the_sender_and_repeats_the_text(shell: Shell) -> None:
    assert shell.said("send", "hello", "--wait") == "Assistant here (rehearsal, no model). ada wrote: hello\n"


def test_two_agents_are_asked_at_once_with_a_shared_context(shell: Shell, office: OfficeProcess) -> None:
    shell.said("agent", "add", "amy")
    shell.said("agent", "add", "ben")
    answer = shell.value("send", "About rain. [@amy: !sleep 1] [@ben: !sleep 1]", "--wait")
    assert {r["agent"]: r["text"] for r in answer["responses"]} == {
        name: f"{name} here (rehearsal, no model). ada wrote: About rain.\n\n!sleep 1" for name in ("amy", "ben")
    }
    # side by side: both runs had begun before either was done
    reader = office.door.reader()
    steps = reader.events(0, 1000, kinds=["chain_step_start", "chain_step_done"], trace=answer["traceId"])
    reader.close()
    assert [step["kind"] for step in steps] == ["chain_step_start"] * 2 + ["chain_step_done"] * 2


@pytest.mark.usefixtures("office")
def test_without_json_each_of_several_answers_says_whose_it_is(shell: Shell) -> None:
    shell.said("agent", "add", "amy")
    shell.said("agent", "add", "ben")
    said = shell.said("send", "[@amy: !say one] [@ben: !say two]", "--wait").splitlines()
    assert sorted(said) == ["amy: one", "ben: two"]


def test_a_trace_is_found_by_its_own_id_and_by_each_of_its_messages(shell: Shell, office: OfficeProcess) -> None:
    shell.said("agent", "add", "ben")
    trace = office.ask("!say [@ben: !say done]", to="assistant")
    ids = [trace["traceId"], *(message["messageId"] for message in trace["messages"])]
    assert len(ids) == 3
    assert [shell.value("trace", id) for id in ids] == [trace] * 3
    tree = shell.said("trace", ids[2])
    assert tree == shell.said("trace", ids[0])
    assert tree.startswith(f"{trace['traceId']}: 2 messages, 2 agents, 2 runs")
    assert "ada → assistant  completed" in tree
    assert "assistant → ben  completed" in tree
    assert shell.refusal("trace", "trace_00000000") == "manydesks: There is no trace or message 'trace_00000000'."


@pytest.mark.slow
def test_the_status_of_an_office_that_hangs_can_be_read(shell: Shell, office: OfficeProcess) -> None:
    assert shell.value("status")["status"] == "up"
    office.ask("hello")
    os.kill(office.pid, signal.SIGSTOP)
    try:
        hanging = shell.run("status", "--json")
        counts = shell.value("queue", "status")
    finally:
        os.kill(office.pid, signal.SIGCONT)
    assert hanging.returncode == 1
    assert json.loads(hanging.stdout)["status"] == "not_answering"
    assert json.loads(hanging.stdout)["queue"]["completed"] == counts["completed"] == 1
    assert str(office.pid) in hanging.stderr
    assert shell.value("status")["status"] == "up"


def test_the_status_of_an_office_that_is_down(shell: Shell, office: OfficeProcess) -> None:
    assert office.stop() == 0
    down = shell.run("status", "--json")
    assert (down.returncode, json.loads(down.stdout)["status"]) == (1, "down")
    assert json.loads(down.stdout)["queue"]["pending"] == 0


def test_the_status_of_a_home_that_never_was(shell: Shell) -> None:
    never = shell.run("status", "--json")
    assert (never.returncode, json.loads(never.stdout)["status"]) == (1, "down")
    assert not shell.home.exists()


@pytest.mark.parametrize("open_office", [True, False], ids=["open", "closed"])
def test_agents_come_and_go(shell: Shell, office: OfficeProcess, open_office: bool) -> None:
    if not open_office:
        office.stop()
    added = shell.value("agent", "add", "coder", "--name", "The coder", "--model", "small")
    assert (added["id"], added["name"], added["model"]) == ("coder", "The coder", "small")
    assert (shell.home / "workspaces" / "coder").is_dir()
    assert "already" in shell.refusal("agent", "add", "coder")
    assert [agent["id"] for agent in shell.value("agent", "list")] == ["assistant", "coder"]
    assert "give --yes" in shell.refusal("agent", "remove", "coder")
    assert shell.value("agent", "remove", "coder", "--yes")["id"] == "coder"
    assert [agent["id"] for agent in shell.value("agent", "list")] == ["assistant"]
    assert (shell.home / "workspaces" / "coder").is_dir()
    assert shell.value("agent", "add", "coder")["id"] == "coder"


def test_an_agent_with_work_is_not_removed(shell: Shell, office: OfficeProcess) -> None:
    office.door.ask("send", text="!hang", to="assistant")
    assert "still has 1 message pending, running or held" in shell.refusal("agent", "remove", "assistant", "--yes")
    assert [agent["id"] for agent in shell.value("agent", "list")] == ["assistant"]


def test_a_dead_letter_is_listed_edited_retried_and_dropped(shell: Shell, office: OfficeProcess) -> None:
    lost, saved = (office.ask(f"!fail permanent {why}")["messages"][0]["messageId"] for why in ("one", "two"))
    letters = shell.value("queue", "dead")
    assert [(letter["messageId"], letter["reason"]) for letter in letters] == [(lost, "one"), (saved, "two")]
    assert shell.value("queue", "status")["dead"] == 2
    assert lost in shell.said("queue", "dead", "--agent", "assistant")
    assert "no agent 'nobody'" in shell.refusal("queue", "dead", "--agent", "nobody")

    assert "give --yes" in shell.refusal("queue", "drop", lost)
    assert shell.value("queue", "drop", lost, "--yes")["status"] == "cancelled"
    assert "is cancelled; only a dead one can be retried" in shell.refusal("queue", "retry", lost)

    assert shell.value("queue", "retry", saved, "--message", "!say better")["status"] == "pending"
    (message,) = office.trace(office.door.reader().message(saved)["traceId"])["messages"]
    assert message["status"] == "completed"
    assert [r["text"] for r in message["responses"] if r["operation"] == "message"] == ["better"]
    assert "only a dead or a held one can be dropped" in shell.refusal("queue", "drop", saved, "--yes")
    counts = shell.value("queue", "status")
    assert (counts["dead"], counts["cancelled"], counts["completed"]) == (0, 1, 1)
    assert "There is no message 'console_00000000'" in shell.refusal("queue", "retry", "console_00000000")


def test_events_are_shown_all_by_kind_by_trace_and_after_a_number(shell: Shell, office: OfficeProcess) -> None:
    first, second = office.ask("one"), office.ask("two")
    every = shell.value("events")
    assert [event["seq"] for event in every] == list(range(1, len(every) + 1))
    assert [event["trace"] for event in shell.value("events", "--type", "message_completed")] == [
        first["traceId"],
        second["traceId"],
    ]
    assert {event["trace"] for event in shell.value("events", "--trace", second["traceId"])} == {second["traceId"]}
    assert shell.value("events", "--after", str(every[-3]["seq"])) == every[-2:]
    assert "did you mean 'message_completed'?" in shell.refusal("events", "--type", "message_complete")
    assert shell.said("events", "--type", "processor_start").count("\n") == 1


def test_events_are_followed_as_another_process_commits_them(shell: Shell, office: OfficeProcess) -> None:
    follower = shell.begin("events", "-f", "--json", "--after", "0", "--type", "message_completed")
    assert follower.stdout is not None
    try:
        for _ in range(3):
            trace = office.ask("hello")["traceId"]
            # blocks until the line is there: were it never to come, the test's time limit would end it
            assert json.loads(follower.stdout.readline())["trace"] == trace
    finally:
        follower.send_signal(signal.SIGINT)
        follower.communicate()
    assert follower.returncode == 130
    assert not list((shell.home / "run").glob("ear-*"))


def test_down_closes_the_office_and_twice_is_no_error(shell: Shell, office: OfficeProcess) -> None:
    assert shell.said("down") == "The office is down.\n"
    assert office.wait() == 0
    again = shell.run("down", "--json")
    assert (again.returncode, json.loads(again.stdout)) == (0, {"stopped": False})
