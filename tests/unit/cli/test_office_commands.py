"""`up --detach`, `down` and `status`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from manydesks.cli.detach import last_sentence, sole_start, start, wait_until_ready
from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import HomeError, NotAnswering, NotRunning, OfficeError, StoreCorrupt

HANGS = NotAnswering(home="/h", pid=9, seconds=5)


class TestStatus:
    def test_up(self, run, reader, home):
        reader.counts |= {"pending": 1200, "dead": 2}
        result = run("status")
        assert result.exit_code == 0
        assert result.stdout.splitlines() == [
            "office  up  (process 4242, version 0.1.0, for 1 min 5 s)",
            f"home    {home.path}",
            "queue   1,200 pending, 0 processing, 0 held, 2 dead, 0 outgoing",
            "waits   2 dead letters: `manydesks queue dead`",
        ]

    def test_what_waits_for_a_person(self, run, reader):
        reader.glance = {
            "holds": {"loop_guard": 2, "chain": 5, "approval": 1},
            "responses": {"acked": 9, "unsure": 1, "dead": 3},
            "questions": 2,
        }
        assert run("status").stdout.splitlines()[3:] == [
            "waits   2 questions: `manydesks questions`",
            "waits   3 held messages (approval, loop_guard): `manydesks queue held`",
            "waits   1 answer that may not have arrived: `manydesks responses list`",
            "waits   3 answers that cannot be delivered: `manydesks responses list`",
        ]
        assert json.loads(run("status", "--json").stdout)["waiting"] == reader.glance

    def test_settings_that_were_not_taken(self, run, door):
        door.running |= {"settings": {"refused": "retry.jitter is 9.", "nextStart": ["office.durability"]}}
        assert run("status").stdout.splitlines()[3:] == [
            "settings  not taken, the old ones stay: retry.jitter is 9.",
            "settings  office.durability takes effect at the next start",
        ]

    def test_what_the_office_does_for_the_lake(self, run, door):
        last = {"job": "run", "startedAt": 0, "endedAt": 1_700_000_000_000, "ok": True, "reason": None}
        door.running |= {"pipeline": {"auto": "nightly", "installed": True, "running": None, "last": last}}
        [line] = run("status").stdout.splitlines()[3:]
        assert line.startswith("pipeline  the last run ended well, 2023-11-1")
        last |= {"ok": False, "reason": "the disk is full"}
        [line] = run("status").stdout.splitlines()[3:]
        assert line.endswith(": the disk is full")
        door.running["pipeline"] |= {
            "last": None,
            "running": {"job": "watch", "pid": 7, "startedAt": 1_700_000_000_000},
        }
        [line] = run("status").stdout.splitlines()[3:]
        assert line.startswith("pipeline  watch  (process 7, since 2023-11-1")

    def test_one_that_hangs_says_since_when(self, run, door):
        door.running, door.signed = HANGS, 1_700_000_000_000
        result = run("status")
        assert result.stdout.startswith("office  not answering  since 2023-11-1")
        assert json.loads(run("status", "--json").stdout)["hangsSince"] == 1_700_000_000_000

    def test_down(self, run, door):
        door.running = None
        result = run("status")
        assert result.exit_code == 1
        assert result.stdout.startswith("office  down\n")
        assert "queue " in result.stdout

    def test_hanging(self, run, door):
        door.running = HANGS
        result = run("status", "--json")
        assert result.exit_code == 1
        shown = json.loads(result.stdout)
        assert (shown["status"], shown["host"], shown["queue"]["pending"]) == ("not_answering", None, 0)
        assert "does not answer" in json.loads(result.stderr)["notice"]

    def test_a_home_that_was_never_used(self, run, door):
        door.running = None
        door.the_reader = HomeError(home="/h", reason="it does not exist.")
        result = run("status", "--json")
        assert (result.exit_code, json.loads(result.stdout)["queue"]) == (1, None)

    def test_an_office_whose_store_is_damaged_is_not_well(self, run, door):
        door.the_reader = StoreCorrupt(path="/x", reason="malformed")
        result = run("status")
        assert (result.exit_code, result.stdout) == (1, "")

    def test_another_version_is_said(self, run, door):
        door.running["version"] = "0.0.9"
        assert "version 0.0.9, this command is 0.1.0" in run("status").stdout


class TestDown:
    def test_it_stops(self, run, door):
        result = run("down", "--timeout", "7")
        assert (result.exit_code, result.stdout) == (0, "The office is down.\n")
        assert door.asked == [("stop", {"timeout": 7.0})]

    def test_nothing_to_stop(self, run, door):
        door.stops = NotRunning(home="/h")
        result = run("down")
        assert (result.exit_code, result.stderr) == (0, "manydesks: No office was running.\n")

    def test_one_that_hangs_is_stopped_too(self, run, door):
        door.running = HANGS  # it is not asked before: the time given is for all of it
        assert run("down", "--json").stdout == '{"stopped": true}\n'
        assert door.asked

    def test_one_that_does_not_end(self, run, door):
        door.stops = False
        result = run("down")
        assert result.exit_code == 1
        assert "has not ended within 30 s" in result.stderr


class TestDetach:
    @pytest.fixture
    def launch(self, tmp_path):
        children = []

        def launch(code: str) -> subprocess.Popen[bytes]:
            children.append(start([sys.executable, "-c", code], log=tmp_path / "host.log"))
            return children[-1]

        yield launch
        for child in children:
            child.kill()
            child.wait()

    def wait(self, child, tmp_path, ready, limit=30.0, since=0):
        log = tmp_path / "host.log"
        wait_until_ready(child, ready=ready, log=log, since=since, clock=SystemClock(), limit=limit)

    def test_it_waits_until_the_child_is_ready(self, launch, tmp_path):
        log = tmp_path / "host.log"
        child = launch("import os, signal; print(os.getsid(0), flush=True); signal.pause()")
        self.wait(child, tmp_path, lambda: log.read_text().endswith("\n"))
        assert int(log.read_text()) == child.pid  # a session of its own
        assert log.stat().st_mode & 0o777 == 0o600

    def test_a_child_that_dies(self, launch, tmp_path):
        (tmp_path / "host.log").write_text("manydesks: of an earlier start\n")
        child = launch("import sys; print('no room'); sys.exit('why: it is full')")
        with pytest.raises(OfficeError, match=r"it ended with exit code 1 before it answered") as caught:
            self.wait(child, tmp_path, lambda: False, since=31)
        assert caught.value.exit_code == 1

    def test_a_child_that_says_why_it_dies(self, launch, tmp_path):
        child = launch("import sys; print('manydesks: It is full.\\nat exit', file=sys.stderr); sys.exit(70)")
        with pytest.raises(OfficeError, match=r"^It is full\.$") as caught:
            self.wait(child, tmp_path, lambda: False)
        assert caught.value.exit_code == 70

    def test_a_child_that_is_killed(self, launch, tmp_path):
        child = launch("import os; os.kill(os.getpid(), 9)")
        with pytest.raises(OfficeError, match=r"was killed by signal 9"):
            self.wait(child, tmp_path, lambda: False)

    def test_a_child_that_is_late_is_left_alone(self, launch, tmp_path):
        child = launch("import signal; signal.pause()")
        with pytest.raises(OfficeError, match=rf"process {child.pid}\) but does not answer after 0.2 s"):
            self.wait(child, tmp_path, lambda: False, limit=0.2)
        assert child.poll() is None

    def test_of_a_long_log_the_end_is_read(self, tmp_path):
        log = tmp_path / "host.log"
        log.write_text("manydesks: first.\n" + "".join(f"line {n}\n" for n in range(100_000)))
        assert last_sentence(log, since=0) is None
        with log.open("a") as file:
            file.write("manydesks: a note.\nmanydesks: last.\nafter it\n")
        assert last_sentence(log, since=0) == "last."

    def test_a_sentence_that_a_full_disk_cut_is_none(self, tmp_path):
        log = tmp_path / "host.log"
        log.write_text("manydesks: The disk of")
        assert last_sentence(log, since=0) is None

    def test_a_log_that_cannot_be_written(self, run, door, home):
        door.running = None
        home.prepare()
        (home.logs / "host.log").mkdir()
        result = run("up", "--detach")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"manydesks: The office failed: its log {home.logs / 'host.log'} cannot be written: Is a directory.\n"
        )

    def test_only_one_starts_at_a_time(self, tmp_path):
        log = tmp_path / "host.log"
        second = "import sys; from pathlib import Path; from manydesks.cli.detach import sole_start\n"
        second += "print('waits', flush=True)\nwith sole_start(Path(sys.argv[1])) as since:\n    print(since)"
        with sole_start(log) as since:
            assert since == 0
            child = subprocess.Popen([sys.executable, "-c", second, log], stdout=subprocess.PIPE, text=True)
            assert child.stdout.readline() == "waits\n"
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.2)
            log.write_text("manydesks: of the first.\n")
        assert child.communicate() == (f"{log.stat().st_size}\n", None)

    def test_an_office_that_runs_already(self, run, home):
        result = run("up", "--detach")
        assert result.exit_code == 1
        assert f"An office already runs on {home.path} (process 4242)" in result.stderr


class TestUp:
    """With a real office: what a person sees of it."""

    @pytest.fixture
    def manydesks(self, home):
        def begin(*args: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "manydesks", "--home", str(home.path), *args]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        yield begin
        begin("down").communicate()

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_broken_settings_are_one_sentence(self, manydesks, home, options):
        home.prepare()
        home.settings_file.write_text("[office\n")
        started = manydesks("up", "--detach", *options)
        out, said = started.communicate()
        assert (started.returncode, out, said.count("\n")) == (1, "", 1)
        sentence = json.loads(said)["error"] if options else said.removeprefix("manydesks: ")
        assert sentence.startswith("The settings are not valid: ")

    def test_two_at_once(self, manydesks, home):
        started = [manydesks("up", "--detach"), manydesks("up", "--detach")]
        ended = [(*child.communicate(), child.returncode) for child in started]
        (loser,) = (end for end in ended if end[2] != 0)
        (winner,) = (end for end in ended if end[2] == 0)
        pid = int(winner[0].removeprefix("The office is up (process ").removesuffix(").\n"))
        assert loser == (
            "",
            f"manydesks: An office already runs on {home.path} (process {pid}); `manydesks down` ends it.\n",
            1,
        )
        assert winner[1] == ""

    def test_json_in_the_foreground_is_one_value(self, manydesks, home):
        office = manydesks("up", "--json")
        value = json.loads(office.stdout.readline())
        assert value == {"pid": office.pid, "home": str(home.path)}
        asked = manydesks("send", "hello", "--wait")
        assert asked.communicate()[0]
        os.kill(office.pid, signal.SIGTERM)
        rest, _ = office.communicate()
        assert (office.returncode, rest) == (0, "")


def test_status_names_who_is_paused(run, reader):
    reader.people = [{"id": "coder", "paused": True}, {"id": "assistant", "paused": False}]
    assert run("status").stdout.splitlines()[-1] == "paused  coder"
    assert json.loads(run("status", "--json").stdout)["paused"] == ["coder"]
