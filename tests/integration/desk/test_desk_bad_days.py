"""Bad days at a desk: each ends in a classified outcome with a readable reason, and no other session notices."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Any]


def said(message: dict[str, Any]) -> list[str]:
    return [r["text"] for r in message["responses"] if r["operation"] == "message" and r["status"] == "acked"]


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
def test_a_killed_runner_counts_an_attempt(make_bench: Make, sandbox: str) -> None:
    bench = make_bench(sandbox, retry__max_attempts=1)
    sent = bench.begin("!hang")
    os.kill(bench.runner(), signal.SIGKILL)
    bench.unmoved()
    message = bench.message(sent)
    assert (message["status"], message["attempts"]) == ("dead", 1)
    assert "the runner died: it was ended by SIGKILL" in message["lastError"]
    assert said(bench.ask("!say fine")) == ["fine"]


def test_a_runner_that_crashes_says_why(make_bench: Make) -> None:
    bench = make_bench(retry__max_attempts=1)
    message = bench.ask("!crash")
    assert message["status"] == "dead"
    assert "it ended with 70: The runner of agent 'amy' died" in message["lastError"]
    log = bench.office.home.logs / "desks" / f"{bench.session.name}.log"
    assert "The runner of agent 'amy' died" in log.read_text()


@pytest.mark.parametrize("name", ["outbound.db", "outbound.db-journal", "outbound.db-wal", "outbox"])
def test_a_desk_cannot_stop_its_session_by_a_folder_in_the_place_of_a_file(make_bench: Make, name: str) -> None:
    bench = make_bench()
    assert said(bench.ask("!say before")) == ["before"]
    for number in range(3):
        path = bench.session / "out" / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if name == "outbox":
            path.symlink_to("/etc")
        else:
            (path / "x").mkdir(parents=True)
        assert said(bench.ask(f"!say {number}")) == [str(number)]
    bench.unmoved()


def test_a_desk_s_log_says_what_is_of_which_run(make_bench: Make) -> None:
    bench = make_bench(office__log_level="error")
    for text in ("one", "two"):
        bench.ask(f"!say {text}")
    reader = bench.office.door.reader()
    runs = [event["run"] for event in reader.events(0, 10_000, kinds=["chain_step_start"]) if event["agent"] == "amy"]
    reader.close()
    log = bench.office.home.logs / "desks" / f"{bench.session.name}.log"
    bench.until(lambda: log.read_text().count(" ends\n") == 2)
    said = [line.split(": ", 1)[1].split(":")[0] for line in log.read_text().splitlines()]
    assert said == [f"run {run} {what}" for run in runs for what in ("begins", "ends")]


def test_a_stopped_runner_is_hung(make_bench: Make) -> None:
    bench = make_bench(runner__heartbeat_seconds=10, retry__max_attempts=1)
    sent = bench.begin("!hang")
    os.kill(bench.runner(), signal.SIGSTOP)
    bench.unmoved()
    message = bench.message(sent)
    assert message["status"] == "dead"
    assert "the runner hung: its last heartbeat is" in message["lastError"]
    assert len(bench.kinds("runner_killed")) == 1
    assert said(bench.ask("!say fine")) == ["fine"]


def test_a_runner_that_ignores_what_it_is_told_is_killed(make_bench: Make) -> None:
    """The word to end comes while it does not listen: it is still alive by its heartbeat, and has had its time."""
    bench = make_bench(runner__run_seconds=2, retry__max_attempts=1)
    sent = bench.begin("!hang")
    os.kill(bench.runner(), signal.SIGSTOP)
    message = bench.message(sent)
    assert message["status"] == "dead"
    assert "did not end within 2 s" in message["lastError"]
    bench.until(lambda: not bench.processes())


def test_a_host_that_is_killed_takes_its_desks_with_it(make_bench: Make) -> None:
    bench = make_bench()
    sent = bench.begin("!sleep 2\n!say once")
    bench.office.kill()
    bench.until(lambda: not bench.processes())
    bench.office.start()
    message = bench.message(sent)
    assert (message["status"], said(message)) == ("completed", ["once"])


def test_a_host_that_is_killed_after_the_answer_does_not_ask_again(make_bench: Make) -> None:
    """The answer lies in the desk's file; the next host takes it."""
    bench = make_bench()
    sent = bench.begin("!sleep 1\n!say once")
    os.kill(bench.office.pid, signal.SIGSTOP)
    acks = f"file:{bench.session}/out/outbound.db?mode=ro"

    def answered() -> bool:
        with contextlib.closing(sqlite3.connect(acks, uri=True, timeout=5)) as db:
            return bool(db.execute("select count(*) from acks").fetchone()[0])

    bench.until(answered)
    bench.office.kill()
    bench.office.start()
    message = bench.message(sent)
    assert (message["status"], message["attempts"], said(message)) == ("completed", 1, ["once"])


def test_a_workspace_that_is_gone(make_bench: Make) -> None:
    bench = make_bench()
    shutil.rmtree(bench.office.home.workspace("amy"))
    message = bench.ask("!say hello")
    assert (message["status"], message["attempts"]) == ("dead", 1)
    assert "its workspace folder" in message["lastError"]
    assert "does not exist" in message["lastError"]
    bench.unmoved()


def test_a_workspace_that_is_a_link(make_bench: Make, tmp_path: Path) -> None:
    bench = make_bench()
    workspace = bench.office.home.workspace("amy")
    shutil.rmtree(workspace)
    workspace.symlink_to(tmp_path)
    message = bench.ask("!say hello")
    assert message["status"] == "dead"
    assert "is reached through a symbolic link" in message["lastError"]
    bench.unmoved()


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "replaced"])
def test_a_session_folder_that_goes_away_under_way(make_bench: Make, again: bool) -> None:
    bench = make_bench()
    sent = bench.begin("!sleep 6\n!say there")
    session = bench.session
    shutil.rmtree(session)
    if again:
        for name in ("in", "out", "state", "host"):
            (session / name).mkdir(parents=True)
    bench.unmoved()
    message = bench.message(sent)
    assert (message["status"], said(message)) == ("completed", ["there"])
    assert message["attempts"] >= 2
    (killed, *_) = bench.kinds("runner_killed", "runner_stopped")
    assert "folder" in killed["data"]["reason"] or "mailbox" in killed["data"]["reason"]


def huge(file: Path) -> None:
    with file.open("r+b") as db:
        db.truncate(1 << 30)


def other_schema(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("create table diary (day text)")
        db.commit()


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def garbage(file: Path) -> None:
    file.write_bytes(b"not a database, but long enough to be looked at " * 200)


def hot(file: Path) -> None:
    """A journal that names pages of nobody: forged, or of a writer that was killed."""
    magic = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    file.with_name("outbound.db-journal").write_bytes(magic + b"\0" * 504)


@pytest.mark.parametrize("damage", [huge, other_schema, link, fifo, garbage, hot])
def test_a_desk_file_that_is_not_one(make_bench: Make, damage: Callable[[Path], None]) -> None:
    bench = make_bench()
    assert said(bench.ask("!say before")) == ["before"]
    damage(bench.session / "out" / "outbound.db")
    bench.unmoved()
    message = bench.ask("!say after")
    assert (message["status"], said(message)) == ("completed", ["after"]), message
    assert said(bench.ask("!say and on")) == ["and on"]


def test_nobody_sits_down_for_a_run_whose_runner_was_killed_while_it_wrote(make_bench: Make) -> None:
    """Its file is mended to be read; the run has failed, and its message is nobody's work any more."""
    bench = make_bench(retry__max_attempts=1)
    sent = bench.begin("!hang")
    runner = bench.runner()
    # the office looks again only when both have happened
    os.kill(bench.office.pid, signal.SIGSTOP)
    hot(bench.session / "out" / "outbound.db")
    os.kill(runner, signal.SIGKILL)
    os.kill(bench.office.pid, signal.SIGCONT)
    assert bench.message(sent)["status"] == "dead"
    bench.until(lambda: not bench.processes())
    assert len(bench.kinds("runner_started")) == 1


@pytest.mark.parametrize("damage", [huge, other_schema, link, fifo, garbage, hot])
def test_a_desk_file_that_is_not_one_after_a_kill(make_bench: Make, damage: Callable[[Path], None]) -> None:
    bench = make_bench()
    sent = bench.begin("!sleep 1\n!say late")
    bench.office.kill()
    bench.until(lambda: not bench.processes())
    damage(bench.session / "out" / "outbound.db")
    bench.office.start()
    message = bench.message(sent)
    assert (message["status"], said(message)) == ("completed", ["late"])
    bench.unmoved()


def test_a_desk_that_holds_the_lock_of_its_inbox(make_bench: Make) -> None:
    """A reader can stall the host's write; only this session waits, and its runner is ended."""
    bench = make_bench(retry__max_attempts=1)
    assert said(bench.ask("!say before")) == ["before"]
    with contextlib.closing(sqlite3.connect(f"file:{bench.session}/in/inbound.db?mode=ro", uri=True)) as db:
        db.execute("begin")
        db.execute("select * from messages_in").fetchone()
        sent = bench.office.door.ask("send", text="!say stalled", to="amy", sender="ada")
        bench.unmoved()
        message = bench.message(sent)
        assert message["status"] == "dead"
        assert "was locked for more than 2.0 s" in message["lastError"]
        db.execute("rollback")
    assert said(bench.ask("!say after")) == ["after"]
