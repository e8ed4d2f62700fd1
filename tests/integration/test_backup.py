"""Backups of real offices: made while they work, put back elsewhere or in their place, and killed on the way."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.ids import new_id
from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

pytestmark = pytest.mark.slow

AGENTS = [f"agent{number}" for number in range(8)]
TEXTS = (
    "hello",
    "!sleep 0.02\n!say slept",
    "[@agent1: !say a] [@agent2: !say b] everyone",
    "!say [@agent3: !say handed over]",
    "!sleep 0.3\n!say slept long",
)


@pytest.fixture
def elsewhere(home: Path) -> Iterator[OfficeProcess]:
    office = OfficeProcess(home.with_name("other"))
    yield office
    office.kill()


class Load:
    """Sends to everybody until it is told to stop."""

    def __init__(self, office: OfficeProcess) -> None:
        self._office, self._stop = office, threading.Event()
        self.accepted: list[str] = []
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._send, args=(seed,)) for seed in range(3)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        assert self.errors == []

    def _send(self, seed: int) -> None:
        rng = random.Random(seed)
        try:
            while not self._stop.wait(rng.uniform(0.005, 0.03)):
                said = self._office.door.ask(
                    "send", text=rng.choice(TEXTS), to=rng.choice([None, *AGENTS]), message_id=new_id("console")
                )
                self.accepted += [message["messageId"] for message in said["messages"]]
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.errors.append(error)


def settled(office: OfficeProcess) -> None:
    def quiet(reader: Reader) -> bool:
        counts = reader.queue_status()
        return not any(counts[state] for state in ("pending", "processing", "outgoing"))

    office.until(quiet, 60)


def rows(home: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{home / 'office.db'}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def test_an_office_under_load_goes_on_elsewhere(
    office: OfficeProcess, elsewhere: OfficeProcess, shell: Shell, tmp_path: Path
) -> None:
    for agent in AGENTS:
        office.door.ask("agent_add", id=agent)
    with Load(office) as load:
        office.until(lambda reader: reader.queue_status()["completed"] > 60)
        made = shell.value("backup", str(tmp_path / "a.backup"))
        office.until(lambda reader: reader.queue_status()["completed"] > 160)
    settled(office)
    assert len(load.accepted) > 100
    assert (tmp_path / "a.backup").stat().st_mode & 0o777 == 0o600
    # the original goes on as if nothing had been
    assert rows(office.home.path, "select count(*) from messages where state not in (3)") == [(0,)]
    (event,) = office.until(lambda reader: reader.events(0, 10_000, kinds=["backup_made"]))
    assert event["data"]["seq"] == made["seq"]

    back = shell.value("restore", str(tmp_path / "a.backup"), "--home", str(elsewhere.home.path))
    assert (back["seq"], back["aside"]) == (made["seq"], None)
    new = elsewhere.home.path
    then = {id for (id,) in rows(new, "select message_id from messages")}
    busy = rows(new, "select count(*) from messages where state in (0, 1)")[0][0]
    assert busy == back["waiting"]
    assert busy > 0, "the backup was of an office at rest"
    assert 0 < len(then) < len(load.accepted) + 200
    elsewhere.start()
    settled(elsewhere)
    more = elsewhere.ask("!say still here", to="agent5")
    assert [r["text"] for r in more["messages"][0]["responses"]] == ["still here"]
    for id, status, error in rows(new, "select message_id, status, last_error from messages"):
        assert status == "completed" or (status == "dead" and error.startswith("interrupted_after_output")), id
    # one answer each, none of them twice: by its run, by the desk's row, by what was said
    answers = (
        "select message_id from responses where operation = 'message' and state = 4 group by 1 having count(*) > 1"
    )
    assert rows(new, answers) == []
    taken = "select run, outbound from responses where outbound is not null group by 1, 2 having count(*) > 1"
    assert rows(new, taken) == []
    seqs = [seq for (seq,) in rows(new, "select seq from events order by seq")]
    assert seqs == list(range(1, len(seqs) + 1))
    kinds = [kind for (kind,) in rows(new, f"select kind from events where seq > {made['seq']} order by seq limit 2")]
    assert kinds[0] == "office_restored"
    named = "select json_extract(data, '$.lineage') from events where kind = '{}' order by seq"
    first, *_, last = rows(new, named.format("processor_start"))
    assert first == (None,)
    assert [last] == rows(new, named.format("office_restored"))


def test_numbers_that_are_given_a_second_time_are_taken(
    office: OfficeProcess, elsewhere: OfficeProcess, shell: Shell, tmp_path: Path
) -> None:
    """The desk's copy is older than the store's cursor: what it writes next has numbers that were taken before."""
    office.ask("!say one")
    first = tmp_path / "first.backup"
    shell.said("backup", str(first))
    for number in range(5):
        office.ask(f"!say more {number}")
    second = tmp_path / "second.backup"
    shell.said("backup", str(second))
    # as if the desks' files had been copied long before the store
    mixed = tmp_path / "mixed.backup"
    with zipfile.ZipFile(first) as old, zipfile.ZipFile(second) as new, zipfile.ZipFile(mixed, "w") as out:
        manifest, before = json.loads(new.read("manifest.json")), json.loads(old.read("manifest.json"))
        for name in manifest["members"]:
            older = name.endswith("outbound.db")
            out.writestr(name, (old if older else new).read(name))
            if older:
                manifest["members"][name] = before["members"][name]
        out.writestr("manifest.json", json.dumps(manifest))
    shell.said("restore", str(mixed), "--home", str(elsewhere.home.path))
    elsewhere.start()
    for number in range(4):
        trace = elsewhere.ask(f"!say after {number}")
        assert [r["text"] for r in trace["messages"][0]["responses"]] == [f"after {number}"]
    assert rows(elsewhere.home.path, "select count(*) from events where kind = 'output_discarded'") == [(0,)]


def test_in_the_place_of_an_office(shell: Shell, home: Path, tmp_path: Path) -> None:
    shell.said("up", "--detach")
    shell.said("send", "--wait", "before")
    (home / "secrets.toml").touch(mode=0o600)
    tools = home / "workspaces" / "assistant" / "tools"
    tools.mkdir()
    (tools / "run").write_text("#!/bin/sh\n")
    (tools / "run").chmod(0o755)
    (tools / "link").symlink_to("/etc/hostname")
    (tools / "empty").mkdir()
    os.mkfifo(tools / "pipe")
    file = tmp_path / "a.backup"
    shell.said("backup", str(file))
    with zipfile.ZipFile(file) as zipped:
        names = zipped.namelist()
    assert "secrets.toml" not in names
    assert not [name for name in names if name.startswith(("logs/", "run/", "lake/")) or "pipe" in name]
    shell.said("send", "--wait", "after")
    assert "already runs" in shell.refusal("restore", str(file), "--yes")
    shell.said("down")
    assert "--yes" in shell.refusal("restore", str(file))
    back = shell.value("restore", str(file), "--yes")
    assert back["kept"] == ["secrets.toml"]
    aside = Path(back["aside"])
    assert aside.parent == home.parent
    assert len(rows(aside, "select 1 from messages")) == 2
    assert len(rows(home, "select 1 from messages")) == 1
    assert (tools / "run").stat().st_mode & 0o100
    assert (tools / "link").readlink() == Path("/etc/hostname")
    assert (tools / "empty").is_dir()
    assert not (tools / "pipe").exists()
    assert sorted(path.name for path in home.parent.iterdir()) == sorted([home.name, aside.name])
    shell.said("up", "--detach")
    assert shell.said("send", "--wait", "!say works").strip() == "works"


def test_keys_only_when_asked_for(shell: Shell, home: Path, tmp_path: Path) -> None:
    shell.said("send", "hello")
    (home / "secrets.toml").touch(mode=0o600)
    (home / "api.token").write_text("tok")
    done = shell.run("backup", "--with-secrets", str(tmp_path / "a.backup"))
    assert "holds the office's keys" in done.stderr
    with zipfile.ZipFile(tmp_path / "a.backup") as zipped:
        assert {"secrets.toml", "api.token"} <= set(zipped.namelist())
    shell.said("restore", str(tmp_path / "a.backup"), "--home", str(tmp_path / "h"))
    assert (tmp_path / "h" / "api.token").stat().st_mode & 0o777 == 0o600


def test_places_that_are_refused(shell: Shell, home: Path, tmp_path: Path) -> None:
    assert "There is no store" in shell.refusal("backup", str(tmp_path / "a.backup"))
    shell.said("send", "hello")
    assert "inside the office" in shell.refusal("backup", str(home / "a.backup"))
    (tmp_path / "there").write_text("mine")
    assert "is there already" in shell.refusal("backup", str(tmp_path / "there"))
    assert (tmp_path / "there").read_text() == "mine"
    assert "cannot be read" in shell.refusal("restore", str(tmp_path / "nothing"), "--home", str(tmp_path / "h"))
    assert "cannot be put back" in shell.refusal("restore", str(tmp_path / "there"), "--home", str(tmp_path / "h"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_a_damaged_byte_anywhere_leaves_the_home_as_it_was(shell: Shell, home: Path, tmp_path: Path) -> None:
    shell.said("send", "hello")
    file = tmp_path / "a.backup"
    shell.said("backup", str(file))
    whole = file.read_bytes()
    before = sorted((path, path.stat().st_mtime_ns) for path in home.rglob("*") if "run" not in path.parts)
    rng = random.Random(5)
    refused = 0
    for _ in range(5):
        at = rng.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        done = shell.run("restore", str(file), "--yes", "--home", str(tmp_path / "h"))
        if done.returncode:  # some bytes of a zip mean nothing
            refused += 1
            assert len(done.stderr.splitlines()) == 1
            assert not (tmp_path / "h").exists()
        else:
            (tmp_path / "h").rename(tmp_path / f"h{at}")
    assert refused >= 2
    assert sorted((path, path.stat().st_mtime_ns) for path in home.rglob("*") if "run" not in path.parts) == before


def test_a_newer_store_is_refused(shell: Shell, home: Path, tmp_path: Path) -> None:
    shell.said("send", "hello")
    shell.said("backup", str(tmp_path / "a.backup"))
    shell.said("restore", str(tmp_path / "a.backup"), "--home", str(tmp_path / "h"))
    with closing(sqlite3.connect(tmp_path / "h" / "office.db")) as db, db:
        db.execute("insert into schema_migrations values ('m9999_later', 1)")
    assert "newer ManyDesks" in shell.refusal("backup", str(tmp_path / "b"), "--home", str(tmp_path / "h"))
    file = tmp_path / "c.backup"
    with zipfile.ZipFile(tmp_path / "a.backup") as old, zipfile.ZipFile(file, "w") as new:
        store = (tmp_path / "h" / "office.db").read_bytes()
        manifest = json.loads(old.read("manifest.json"))
        for name in manifest["members"]:
            new.writestr(name, store if name == "office.db" else old.read(name))
        digest = hashlib.sha256(store).hexdigest()
        manifest["members"]["office.db"] |= {"bytes": len(store), "sha256": digest}
        new.writestr("manifest.json", json.dumps(manifest))
    assert "newer ManyDesks" in shell.refusal("restore", str(file), "--home", str(tmp_path / "h2"))
    assert not (tmp_path / "h2").exists()


def test_a_full_disk_is_one_sentence_and_no_backup(
    shell: Shell, home: Path, tmp_path: Path, mount: Callable[..., None]
) -> None:
    shell.said("send", "hello")
    (home / "workspaces" / "assistant" / "large").write_bytes(os.urandom(4 << 20))
    small = tmp_path / "small"
    mount("size=3m", at=small)
    assert "the disk is full" in shell.refusal("backup", str(small))
    assert list(small.iterdir()) == []
    shell.said("backup", str(tmp_path / "a.backup"))
    assert "the disk has fewer" in shell.refusal("restore", str(tmp_path / "a.backup"), "--home", str(small / "h"))
    assert list(small.iterdir()) == []


def test_paused(shell: Shell, home: Path, tmp_path: Path) -> None:
    shell.said("send", "hello")
    shell.said("backup", str(tmp_path / "a.backup"))
    back = shell.value("restore", str(tmp_path / "a.backup"), "--yes", "--paused")
    assert back["waiting"] == 1
    assert rows(home, "select seq from marks where name = 'paused'") == [(1,)]


def test_a_lake_that_alone_has_old_events_goes_along(shell: Shell, home: Path, tmp_path: Path) -> None:
    shell.said("send", "hello")
    (home / "lake" / "events" / "_delta_log").mkdir(parents=True)
    (home / "lake" / "events" / "_delta_log" / "0.json").write_text("{}")
    assert shell.value("backup", str(tmp_path / "a"))["lake"] is False
    with closing(sqlite3.connect(home / "office.db")) as db, db:
        db.execute("insert into marks values ('pruned', 2), ('archived', 3)")
        db.execute("delete from events where seq <= 2")
    assert shell.value("backup", str(tmp_path / "b"))["lake"] is True
    done = shell.run("backup", "--without-lake", str(tmp_path / "c"))
    assert "Events up to 2 are in the lake only" in done.stderr
    shell.said("restore", str(tmp_path / "b"), "--home", str(tmp_path / "with"))
    shell.said("restore", str(tmp_path / "c"), "--home", str(tmp_path / "without"))
    assert (tmp_path / "with" / "lake" / "events" / "_delta_log" / "0.json").exists()
    archived = "select seq from marks where name = 'archived'"
    assert rows(tmp_path / "with", archived) == [(3,)]
    assert rows(tmp_path / "without", archived) == []


def test_killed_while_it_is_made_or_put_back(shell: Shell, home: Path, tmp_path: Path) -> None:
    """At any moment: there is a whole backup or none, and the home is the old office or the new one, never half."""
    shell.said("send", "hello")
    for number in range(60):
        (home / "workspaces" / "assistant" / f"file{number}").write_bytes(os.urandom(200_000))
    good = tmp_path / "good.backup"
    shell.said("backup", str(good))
    shell.said("send", "not in the backup")
    rng = random.Random(3)
    outcomes = set()
    for number in range(5):
        target = tmp_path / f"{number}.backup"
        kill_within(shell.begin("backup", str(target)), rng.uniform(0.2, 1.2))
        if target.exists():
            shell.said("restore", str(target), "--home", str(tmp_path / f"h{number}"))
    for _ in range(8):
        kill_within(shell.begin("restore", str(good), "--yes"), rng.uniform(0.2, 1.6))
        found = len(rows(home, "select 1 from messages"))
        assert found in (1, 2)
        assert len(list((home / "workspaces" / "assistant").glob("file*"))) == 60
        outcomes.add(found)
        assert shell.run("queue", "status").returncode == 0
    shell.said("restore", str(good), "--yes")
    # nothing of what was killed lies about, and no office was thrown away
    left = [path for path in home.parent.iterdir() if path.name.startswith(".")]
    assert left == []
    olds = [path for path in home.parent.iterdir() if ".before-" in path.name]
    assert 2 in [len(rows(path, "select 1 from messages")) for path in olds]
    shell.said("backup", str(tmp_path / "last.backup"))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def kill_within(process: subprocess.Popen[str], seconds: float) -> None:
    with process:
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
