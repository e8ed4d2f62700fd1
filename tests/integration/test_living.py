"""Living with the office: restart it, look at it while it hangs, read its logs, follow it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from manydesks.office.hostlog import FILE_BYTES
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def test_restart_opens_another_office_and_keeps_what_waits(shell: Shell) -> None:
    first = shell.value("restart")
    assert first["service"] is None
    assert "wrote: hello" in shell.said("send", "hello", "--wait")
    second = shell.value("restart")
    assert shell.value("status")["host"]["pid"] == second["pid"] != first["pid"]


def test_settings_that_are_not_valid_cost_no_office(shell: Shell, home: Path) -> None:
    pid = shell.value("restart")["pid"]
    (home / "settings.toml").write_text("[retry]\nbase_seconds = 'soon'\n")
    assert "retry.base_seconds" in shell.refusal("restart")
    (home / "settings.toml").unlink()
    assert shell.value("status")["host"]["pid"] == pid


def test_an_office_that_hangs_is_told_from_one_that_is_down(office: OfficeProcess, shell: Shell) -> None:
    office.ask("!fail permanent no key")
    os.kill(office.pid, signal.SIGSTOP)
    try:
        before = shell.run("status", "--json")
        done = shell.run("status")
    finally:
        os.kill(office.pid, signal.SIGCONT)
    said = json.loads(before.stdout)
    assert (before.returncode, said["status"], said["queue"]["dead"]) == (1, "not_answering", 1)
    # it said last that it turns when it did
    assert abs(said["hangsSince"] - office.until(lambda reader: reader.events(0, 1000))[-1]["at"]) < 30_000
    assert done.returncode == 1
    assert done.stdout.startswith("office  not answering  since 20")
    assert "waits   1 dead letter: `manydesks queue dead`" in done.stdout
    office.until(lambda _: shell.run("status").returncode == 0)
    office.kill()
    down = shell.run("status")
    assert (down.returncode, down.stdout.splitlines()[0]) == (1, "office  down")


def test_logs_of_the_office_and_of_an_agent(office: OfficeProcess, shell: Shell) -> None:
    office.door.ask("agent_add", id="coder", sandbox="none")
    trace = office.ask("!say hello", to="coder")
    assert "The office is open" in shell.said("logs", "-n", "1000")
    said = shell.said("logs", "coder")
    run = trace["messages"][0]["runs"][0]["id"]
    assert f"run {run} begins" in said
    lines = shell.value("logs", run)
    assert [line["text"].split(": ")[1].split(" ")[2] for line in lines] == ["begins", "ends"]
    assert {line["source"] for line in lines} == {trace_session(office, run)}
    assert f"run {run} begins" in shell.said("logs", trace["messages"][0]["messageId"])
    assert "did you mean 'coder'" in shell.refusal("logs", "codr")
    nothing = shell.run("logs", "assistant")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "There are no such lines" in nothing.stderr


def test_every_line_that_the_office_shows_in_its_log_has_its_time(office: OfficeProcess, shell: Shell) -> None:
    id = office.ask("!say hello")["messages"][0]["messageId"]
    told = office.until(lambda _: [line for line in shell.value("logs") if f"answered {id}" in line["text"]])
    assert told[0]["text"].startswith(told[0]["at"])
    assert all(line["text"].startswith(line["at"]) and line["at"] for line in shell.value("logs"))


def trace_session(office: OfficeProcess, run: str) -> str:
    return office.until(lambda reader: reader.run(run))["session"]


def test_a_secret_is_masked_also_if_it_was_set_after_it_was_logged(office: OfficeProcess, shell: Shell) -> None:
    with (office.home.logs / "host.log").open("a") as log:
        log.write("a library said sk-very-secret-1\n")
    shell.said("secret", "set", "anthropic_api_key", text="sk-very-secret-1")
    said = shell.said("logs", "-n", "1000")
    assert "a library said ***" in said
    assert "sk-very" not in said


def test_following_a_log_over_its_renaming(office: OfficeProcess, shell: Shell) -> None:
    log = office.home.logs / "host.log"
    watch = shell.begin("logs", "-f", "-n", "0", "--json")
    try:
        assert watch.stdout is not None
        office.until(lambda _: _opened(watch.pid, log))
        with log.open("a") as file:
            file.write("before\n")
        assert json.loads(watch.stdout.readline())["text"] == "before"
        with log.open("ab") as file:
            file.truncate(FILE_BYTES + 1)
        office.until(lambda _: (office.home.logs / "host.log.1").exists())
        watch.stdout.readline()  # the nothing that made it large
        office.until(lambda _: log.exists())
        with log.open("a") as file:
            file.write("after\n")
        while (said := json.loads(watch.stdout.readline())["text"]) != "after":
            assert "before" not in said
    finally:
        watch.kill()
        watch.communicate()


def _opened(pid: int, path: Path) -> bool:
    """Whether the process has the file open: from now on it sees what is written."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if link.readlink() == path:
                return True
        except OSError:
            continue
    return False


def test_following_the_ledger_over_a_killed_office(make_office: Callable[..., OfficeProcess], shell: Shell) -> None:
    office = make_office()
    office.start()
    watch = shell.begin("events", "-f", "--after", "0", "--type", "message_completed", "--json")
    try:
        assert watch.stdout is not None
        office.ask("one")
        first = json.loads(watch.stdout.readline())
        office.kill()
        office.start()
        office.ask("two")
        second = json.loads(watch.stdout.readline())
        assert first["seq"] < second["seq"]
        assert first["message"] != second["message"]
    finally:
        watch.kill()
        watch.communicate()
