"""Whatever is asked or given: one sentence that says what is allowed, and a code; never a stack trace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell
from manydesks.testing.terminal import Terminal

TOO_LARGE = str(2**63)


def closed(shell: Shell, arguments: Sequence[str], streams: str) -> subprocess.CompletedProcess[str]:
    """A call by a shell that has closed some of its streams."""
    command = str(Path(sys.executable).with_name("manydesks"))
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {streams}', command, *arguments],
        env=shell.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["--help"], ["agent", "list"], ["events"]])
def test_a_closed_stdout(office: OfficeProcess, shell: Shell, arguments: list[str]) -> None:
    done = closed(shell, arguments, ">&-")
    assert done.returncode == 1
    assert "The output cannot be written: Bad file descriptor." in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_stdin(office: OfficeProcess, shell: Shell) -> None:
    for arguments in (["send", "-"], ["secret", "set", "some_key"]):
        done = closed(shell, arguments, "<&-")
        assert (done.returncode, done.stderr) == (2, "manydesks: There is nothing to read: standard input is closed.\n")
    # nothing is typed any more
    assert closed(shell, ["chat"], "<&-").returncode == shell.run("chat", text="").returncode
    # whoever needs none does not notice
    assert closed(shell, ["agent", "list"], "<&-").stdout == shell.said("agent", "list")


def test_a_closed_stderr(office: OfficeProcess, shell: Shell) -> None:
    assert closed(shell, ["send", ""], "2>&-").returncode == 2
    assert closed(shell, ["status"], "<&- >&- 2>&-").returncode == 1
    # the office's files did not get the numbers of the streams
    assert shell.value("status")["status"] == "up"


@pytest.mark.parametrize(
    "arguments", [["events", "--after"], ["queue", "list", "--after"], ["responses", "list", "--after"]]
)
def test_a_number_that_no_row_can_have(office: OfficeProcess, shell: Shell, arguments: list[str]) -> None:
    assert "is not a whole number from 0 to 9223372036854775807" in shell.refusal(*arguments, TOO_LARGE)
    assert "is not a whole number from 0 to 9223372036854775807" in shell.refusal(*arguments, "99999999999999999999")
    shell.said(*arguments, str(2**63 - 1))


def test_a_number_that_no_job_can_have(shell: Shell, home: Path) -> None:
    from manydesks.queue import Queue

    home.mkdir()
    with Queue(home / "jobs.db", "mail") as queue:
        queue.send("hello")
    assert "is not a whole number from 0 to 9223372036854775807" in shell.refusal(
        "queue", "list", "--file", str(home / "jobs.db"), "--after", TOO_LARGE
    )


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("agent_add", {"id": "zed", "options": {"script": "\ud800"}}, "'options' is not valid Unicode text."),
        ("agent_add", {"id": "zed", "options": {"\ud800": 1}}, "'options' is not valid Unicode text."),
        ("agent_add", {"id": "zed", "options": ["script"]}, "'options' must be an object."),
        (
            "agent_edit",
            {"id": "assistant", "changes": {"set_options": {"script": "\udfff"}}},
            "not valid Unicode text.",
        ),
        ("agent_edit", {"id": "assistant", "changes": {"reaches": ["x" * 300]}}, "'reaches' has 300 characters"),
        (
            "message",
            {"text": "hi", "sender": "x" * 100_000},
            "'sender' has 100,000 characters; at most 256 are allowed.",
        ),
        ("message", {"text": "hi", "conversation": "x" * 257}, "'conversation' has 257 characters; at most 256"),
        ("message", {"text": "hi", "thread": "x" * 257}, "'thread' has 257 characters"),
        ("message", {"text": "hi", "sender_id": "x" * 257}, "'sender_id' has 257 characters"),
        ("message", {"text": "hi", "agent": "x" * 257}, "'agent' has 257 characters"),
        ("send", {"text": "hi", "sender": "x" * 257}, "'sender' has 257 characters"),
        ("team_add", {"id": "t", "leader": "assistant", "members": ["x" * 257]}, "'members' has 257 characters"),
        ("answer", {"id": "q", "answer": "yes", "by": "x" * 257}, "'by' has 257 characters"),
        ("forget", {"id": "x" * 257}, "'id' has 257 characters"),
    ],
)
def test_an_act_is_given_something_that_cannot_be_kept(
    office: OfficeProcess, verb: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        office.door.ask(verb, **given)
    assert said in str(refused.value)


def test_as_long_as_is_allowed(office: OfficeProcess, shell: Shell) -> None:
    name = "x" * 256
    office.door.ask("message", text="!say " + "long " * 2_000, sender=name, conversation=name)
    (row,) = shell.value("queue", "list")
    assert row["sender"] == name
    # a terminal is given a row that fits
    terminal = Terminal("queue", "list", environ=shell.environ)
    try:
        assert terminal.end() == 0
        assert max(map(len, terminal.shown.splitlines())) <= 200
        assert row["messageId"] in terminal.shown
    finally:
        terminal.close()


def test_a_trace_that_nobody_knows(office: OfficeProcess, shell: Shell) -> None:
    for more in ((), ("-f",), ("--json",)):
        assert "There is no trace or message 'nope'." in shell.refusal("events", "--trace", "nope", *more)
    sent = office.ask("!say hello")
    events = shell.value("events", "--trace", sent["traceId"])
    assert {event["trace"] for event in events} == {sent["traceId"]}
    # by a message of it, too
    assert shell.value("events", "--trace", sent["messages"][0]["messageId"]) == events


def test_status_says_who_is_missing(office: OfficeProcess, shell: Shell) -> None:
    assert shell.value("status")["missingDefault"] is None
    office.home.settings_file.write_text('[office]\ndefault_agent = "ghost"\n')
    assert shell.value("status")["missingDefault"] == "ghost"
    assert "default ghost does not exist: a message that names nobody is refused" in shell.said("status")


def test_a_cap_that_is_used_up_reads_well(make_office: Any, shell: Shell) -> None:
    shell.environ["MANYDESKS_BUDGET__PER_DAY_RUNS"] = "1"
    make_office(budget__per_day_runs=1).start()
    shell.said("send", "!say hello", "--wait")
    assert "today   the office: 1 of 1 run spent" in shell.said("status")
