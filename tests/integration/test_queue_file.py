"""`manydesks queue … --file`: people look into a jobs file, with no office anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.queue import Queue
from manydesks.testing.shell import Shell


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    with Queue(path, "emails", max_attempts=2) as q:
        q.send({"n": 1})
        message = q.receive()
        assert message is not None
        q.fail(message, "no such \x1b[31m address", permanent=True)
        q.send({"n": 2}, delay=3600)
        q.send({"n": 3}, lane="a", key="k")
    return path


@pytest.fixture
def ask(tmp_path: Path, file: Path) -> Iterator[Any]:
    shell = Shell(home=tmp_path / "no-home")

    def run(*words: str, code: int = 0) -> Any:
        done = shell.run("queue", *words, "--file", str(file), "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if code == 0 else done.stderr

    yield run
    assert not (tmp_path / "no-home").exists(), "looking into a file made an office"


def states(file: Path) -> dict[int, str]:
    with Queue(file, "emails", max_attempts=2) as q:
        return {job.id: job.status for job in q.list()}


def test_looking(ask: Any) -> None:
    counts = {"ready": 1, "claimed": 0, "delayed": 1, "completed": 0, "dead": 1, "cancelled": 0, "paused": False}
    assert ask("status") == {"emails": counts}
    assert [job["id"] for job in ask("list")] == [1, 2, 3]
    assert [job["id"] for job in ask("list", "--after", "1", "--limit", "1")] == [2]
    assert [job["id"] for job in ask("list", "--state", "delayed")] == [2]
    assert [job["reason"] for job in ask("dead")] == ["no such \x1b[31m address"]
    assert ask("show", "3")["lane"] == "a"


def test_moving(ask: Any, file: Path) -> None:
    assert ask("retry", "1") == {"id": 1, "status": "ready"}
    assert ask("release", "2") == {"id": 2, "status": "ready"}
    assert ask("cancel", "3") == {"id": 3, "status": "cancelled"}
    assert states(file) == {1: "ready", 2: "ready", 3: "cancelled"}
    assert ask("prune", "--days", "0") == {"queue": "emails", "pruned": 1}
    assert states(file) == {1: "ready", 2: "ready"}


def test_dropping(ask: Any, file: Path) -> None:
    assert ask("drop", "1", "--yes") == {"id": 1, "status": "cancelled"}
    assert states(file)[1] == "cancelled"


def test_pausing(ask: Any, file: Path) -> None:
    assert ask("pause") == {"queue": "emails", "paused": True}
    with Queue(file, "emails", max_attempts=2) as q:
        assert q.receive() is None
        assert ask("resume") == {"queue": "emails", "paused": False}
        assert q.receive() is not None


def test_a_look_leaves_the_terms_of_a_queue_alone(ask: Any, file: Path) -> None:
    ask("status")
    ask("list")
    with Queue(file, "other") as q, q.transaction() as tx:
        assert tx.execute("select max_attempts from queues where name = 'emails'") == [(2,)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "99"), "There is no job 99 in the queue 'emails'."),
        (("show", "abc"), "A job's id is a whole number"),
        (("list", "--state", "pending"), "A status is one of ready, claimed"),
        (("list", "--queue", "nope"), "There is no queue 'nope'"),
        (("pause", "ada"), "A jobs file has queues, not agents"),
        (("list", "--agent", "ada"), "A jobs file has queues, not agents"),
        (("retry", "1", "--message", "x"), "a job's body stays as it was sent"),
    ],
)
def test_mistakes_get_a_sentence(ask: Any, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in ask(*words, code=2)


def test_the_wrong_state_is_refused(ask: Any) -> None:
    assert "The job 3 is ready; only a dead one can be requeued." in ask("retry", "3", code=1)


def test_with_several_queues_one_has_to_be_named(ask: Any, file: Path) -> None:
    Queue(file, "other").close()
    assert "there are: 'emails', 'other'" in ask("list", code=2)
    assert [job["id"] for job in ask("list", "--queue", "emails")] == [1, 2, 3]
    assert set(ask("status")) == {"emails", "other"}


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    shell = Shell(home=tmp_path / "no-home")
    done = shell.run("queue", "status", "--file", str(tmp_path / "missing.db"))
    assert done.returncode == 2
    assert "There is no jobs file" in done.stderr
    assert not (tmp_path / "missing.db").exists()


def test_options_of_the_one_are_refused_for_the_other(tmp_path: Path) -> None:
    shell = Shell(home=tmp_path / "no-home")
    for words in (("status", "--queue", "x"), ("prune", "--days", "3")):
        assert shell.run("queue", *words).returncode == 2


def test_an_empty_database_is_no_jobs_file_yet(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    done = Shell(home=tmp_path / "no-home").run("queue", "status", "--file", str(tmp_path / "empty.db"))
    assert done.returncode == 1
    assert "opening a queue in it makes it so" in done.stderr


def test_a_file_that_cannot_be_written_is_shown_as_it_stands(tmp_path: Path, mount: Callable[..., None]) -> None:
    disk = tmp_path / "disk"
    mount("size=8m", at=disk)
    with Queue(disk / "jobs.db", "emails") as q:
        q.send({"n": 1})
    mount("remount", "ro", at=disk)
    shell = Shell(home=tmp_path / "no-home")
    assert shell.value("queue", "status", "--file", str(disk / "jobs.db"))["emails"]["ready"] == 1
    assert [job["id"] for job in shell.value("queue", "list", "--file", str(disk / "jobs.db"))] == [1]
    done = shell.run("queue", "cancel", "1", "--file", str(disk / "jobs.db"))
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
