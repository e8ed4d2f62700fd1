"""`manydesks chat`: at a terminal, and through a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell
from manydesks.testing.terminal import Terminal

ASK = '!tool ask_user_question {"question": "Deploy?", "options": ["yes", "no"]}\n'


@pytest.fixture
def sit(shell: Shell) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def sit(*arguments: str) -> Terminal:
        made.append(Terminal(*arguments, environ=shell.environ))
        return made[-1]

    yield sit
    for terminal in made:
        terminal.close()


def test_lines_through_a_pipe_are_answered_one_after_the_other(office: OfficeProcess, shell: Shell) -> None:
    office.door.ask("agent_add", id="coder")
    done = shell.run("chat", "assistant", text="one\n\n@coder two\nthree [@coder: four]\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Assistant here (rehearsal, no model). ada wrote: one",
        "coder here (rehearsal, no model). ada wrote: two",
        "coder here (rehearsal, no model). ada wrote: three",
        "",
        "four",
    ]


@pytest.fixture
def hasty(make_office: Callable[..., OfficeProcess]) -> OfficeProcess:
    """An office that waits for no run when it closes."""
    office = make_office(runner__stop_seconds=0)
    office.start()
    return office


def test_what_does_not_end_well_is_the_exit_code(hasty: OfficeProcess, shell: Shell) -> None:
    done = shell.run("chat", text="!fail permanent no key\nhello\n")
    assert done.returncode == 1
    assert "no key" in done.stderr
    assert "ada wrote: hello" in done.stdout
    late = shell.run("chat", "--timeout", "0", text="!sleep 30\n")
    assert late.returncode == 124
    assert "has not ended within 0 s" in late.stderr


def test_a_talk_outlives_the_office(make_office: Callable[..., OfficeProcess], shell: Shell) -> None:
    office = make_office()
    office.start()
    talk = subprocess.Popen(
        [str(Path(sys.executable).with_name("manydesks")), "chat"],
        env=shell.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert talk.stdin is not None
        assert talk.stderr is not None
        talk.stdin.write("!sleep 2\n")
        talk.stdin.flush()
        office.until(lambda reader: reader.queue_status()["processing"])
        office.kill()
        assert "The office is closed; what was sent is stored" in talk.stderr.readline()
        office.start()
        said, _ = talk.communicate("and now?\n", timeout=60)
        assert talk.returncode == 0
        assert said.count("ada wrote: ") == 2
    finally:
        talk.kill()
        talk.communicate()


def test_each_answer_is_an_object_with_json(office: OfficeProcess, shell: Shell) -> None:
    lines = shell.said("chat", "--json", text="one\ntwo\n").splitlines()
    assert [json.loads(line)["agent"] for line in lines] == ["assistant", "assistant"]


def test_a_question_is_answered_by_the_next_line(office: OfficeProcess, shell: Shell) -> None:
    said = shell.said("chat", text=f"{ASK}2\nand now?\n")
    assert '"selectedOption": "no"' in said
    assert "ada wrote: and now?" in said


def test_a_question_that_nobody_answers_stays_open(hasty: OfficeProcess, shell: Shell) -> None:
    done = shell.run("chat", "--timeout", "1", text=ASK)
    assert done.returncode == 124
    assert [row["question"] for row in shell.value("questions")] == ["Deploy?"]


def test_a_name_that_nobody_has_and_an_office_that_is_not_open(office: OfficeProcess, shell: Shell) -> None:
    assert "did you mean 'assistant'" in shell.refusal("chat", "asistant", text="hi\n")
    office.stop()
    assert "`manydesks up` starts it" in shell.refusal("chat", text="hi\n")


def test_a_talk_at_a_terminal(office: OfficeProcess, sit: Callable[..., Terminal]) -> None:
    talk = sit("chat", "assistant")
    talk.until("assistant> ")
    talk.type("hello\n")
    talk.until("assistant:")
    talk.until("ada wrote: hello")
    talk.until("assistant> ")
    talk.type(ASK)
    talk.until("1. yes")
    talk.until("answer> ")
    talk.type("7\n")
    talk.until("There is no option 7")
    talk.until("answer> ")
    talk.type("1\n")
    talk.until('"selectedOption": "yes"')
    talk.until("assistant> ")
    talk.type("\x04")
    assert talk.end() == 0


def test_ctrl_c_stops_waiting_and_not_the_work(office: OfficeProcess, sit: Callable[..., Terminal]) -> None:
    talk = sit("chat")
    talk.until("> ")
    talk.type("!sleep 1\n")
    office.until(lambda reader: reader.queue_status()["processing"])
    talk.type("\x03")
    talk.until("The work goes on")
    talk.until("> ")
    office.until(lambda reader: (found := reader.queue_status())["completed"] and not found["outgoing"])
    talk.type("/questions\n")
    talk.until("ada wrote: !sleep 1")
    talk.until("> ")
    talk.interrupt("Ctrl-D leaves.")
    talk.type("/quit\n")
    assert talk.end() == 0


def test_what_was_said_before_and_harmless(office: OfficeProcess, sit: Callable[..., Terminal]) -> None:
    office.ask("buy milk")
    office.ask("remember the \x1b[2J milk")
    talk = sit("chat", "assistant")
    shown = talk.until("assistant> ")
    assert "remember the \\x1b[2J milk" in shown
    talk.type("\x1b[A, please\n")  # the last line that can be typed, by the arrow key
    talk.until("ada wrote: buy milk, please")
    talk.until("assistant> ")
    talk.type("\x04")
    assert talk.end() == 0
