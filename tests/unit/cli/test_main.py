"""The root command: help without imports, options anywhere, errors in one shape."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from manydesks import __version__
from manydesks.cli.main import COMMANDS, cli
from manydesks.domain.errors import BadInput, NotAnswering, StoreFull

FULL = Path("/dev/full")


def test_help_imports_nothing_but_the_command_line():
    code = """
import sys
from manydesks.cli.main import cli
try:
    cli.main(["--help"], prog_name="manydesks")
except SystemExit as end:
    print("exit", end.code, file=sys.stderr)
print(*sys.modules, sep="\\n", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, *modules = done.stderr.split("\n")
    assert status == "exit 0"
    assert "Commands:" in done.stdout
    heavy = {"pydantic", "apsw", "asyncio", "tomlkit", "json", "sqlite3", "subprocess"}
    assert not heavy & {name.partition(".")[0] for name in modules}
    rooms = {name.split(".")[1] for name in modules if name.startswith("manydesks.")}
    assert rooms <= {"cli"}
    own = {name for name in modules if name.startswith("manydesks.cli.")}
    assert own == {f"manydesks.cli.{name}" for name in ("main", "root", "command", "invocation")}


def test_python_m_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "manydesks", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"manydesks {__version__}\n"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "pipeline"])
def test_the_line_in_the_list_is_the_first_line_of_the_command(name):
    entry = COMMANDS[name]
    command = entry.load()
    assert command.name == name
    assert (command.help or "").splitlines()[0] == entry.help


def _walk(command, path=()):
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if name != "pipeline":
                yield from _walk(command.get_command(context, name), (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in _walk(cli)], ids=" ".join)
def test_every_command_has_help_and_the_common_options(run, path):
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert "--home DIR" in result.stdout


@pytest.mark.parametrize(
    "args", [("--json", "queue", "status"), ("queue", "--json", "status"), ("queue", "status", "--json")]
)
def test_json_stands_before_or_after_the_command(run, reader, args):
    reader.counts["pending"] = 3
    result = run(*args)
    assert json.loads(result.stdout)["pending"] == 3
    assert result.exit_code == 0


@pytest.mark.parametrize("args", [("--home", "{}", "status"), ("status", "--home", "{}")])
def test_home_stands_before_or_after_the_command(tmp_path, args):
    from manydesks.cli.invocation import Invocation

    invocation = Invocation(environ={})
    arguments = [arg.format(tmp_path / "x") for arg in args]
    with cli.make_context("manydesks", arguments, obj=invocation) as context:
        name, command, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
        command.make_context(name, rest, parent=context).close()
    assert invocation.home.path == tmp_path / "x"


def test_the_inner_home_wins(tmp_path):
    from manydesks.cli.invocation import Invocation

    invocation = Invocation(environ={"MANYDESKS_HOME": "/nowhere"})
    with cli.make_context("manydesks", ["--home", "/outer", "down"], obj=invocation) as context:
        assert str(invocation.home_option) == "/outer"
        COMMANDS["down"].load().make_context("down", ["--home", str(tmp_path)], parent=context).close()
    assert invocation.home.path == tmp_path


def test_an_error_is_one_sentence_and_its_code(run, door):
    door.answers["retry"] = BadInput(reason="no such thing.")
    result = run("queue", "retry", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "manydesks: That is not allowed: no such thing.\n"


def test_an_error_with_json_is_one_object_on_stderr(run, door):
    door.answers["retry"] = StoreFull(path="/x/office.db")
    result = run("queue", "retry", "x", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads(result.stderr) == {
        "error": "The disk of /x/office.db is full; nothing was changed. Free some space and try again."
    }


def test_an_error_cannot_carry_an_escape_sequence(run, door):
    door.answers["retry"] = BadInput("no '\x1b[2J'\nsecond line")
    assert run("queue", "retry", "x").stderr == "manydesks: no '\\x1b[2J' second line\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("send",), "Missing argument 'TEXT'. See 'manydesks send --help'."),
        (("send", "--bogus", "x"), "No such option '--bogus'."),
        (("send", "x", "--priority", "high"), "'high' is not a whole number"),
        (("send", "x", "--timeout", "nan"), "'nan' is not a number of seconds"),
        (("send", "x", "--timeout", "abc"), "'abc' is not a number of seconds"),
        (("send", "x", "--timeout", "-1"), "-1.0 is not in the range"),
        (("sned", "x"), "There is no command 'sned'; did you mean 'send'?"),
        (("zzz",), "There is no command 'zzz'; there are up, down, restart,"),
        (("queue", "ded"), "There is no command 'ded'; did you mean 'dead'?"),
        (("trace", "a", "b"), "Got unexpected extra argument"),
    ],
)
def test_usage_errors_have_the_same_shape(run, door, args, says):
    plain = run(*args)
    assert (plain.exit_code, plain.stdout) == (2, "")
    assert plain.stderr.startswith("manydesks: ")
    assert plain.stderr.count("\n") == 1
    assert says in plain.stderr
    as_json = run(*args, "--json")
    assert (as_json.exit_code, as_json.stdout) == (2, "")
    assert says in json.loads(as_json.stderr)["error"]
    assert door.asked == []


def test_json_after_two_dashes_is_text(run):
    result = run("send", "--bogus", "--", "--json")
    assert result.stderr.startswith("manydesks: ")


def test_no_command_shows_the_help_on_stderr(run):
    result = run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Commands:" in result.stderr


def test_ctrl_c_is_silent(run, door):
    door.answers["retry"] = KeyboardInterrupt()
    result = run("queue", "retry", "x")
    assert (result.exit_code, result.output) == (130, "")


class TestInternalError:
    def test_no_stack_trace_but_a_place_to_find_it(self, run, door, home):
        home.prepare()
        door.answers["retry"] = KeyError("secretive")
        result = run("queue", "retry", "x")
        kept = home.logs / "last-cli-error.txt"
        assert (result.exit_code, result.stdout) == (70, "")
        assert result.stderr == (f"manydesks: internal error (KeyError: 'secretive'); the stack trace is in {kept}.\n")
        assert "Traceback (most recent call last)" in kept.read_text()
        assert kept.stat().st_mode & 0o777 == 0o600

    def test_without_a_home_it_says_how_to_see_it(self, run, door, home):
        door.answers["retry"] = KeyError("x")
        result = run("queue", "retry", "x")
        assert "set MANYDESKS_DEBUG=1 to see the stack trace" in result.stderr
        assert not home.path.exists()

    def test_debug_shows_it(self, run, door):
        door.answers["retry"] = KeyError("x")
        result = run("queue", "retry", "x", environ={"MANYDESKS_DEBUG": "1"})
        assert result.exit_code == 70
        assert "Traceback (most recent call last)" in result.stderr
        assert result.stderr.endswith("internal error (KeyError: 'x'); the stack trace is above.\n")

    def test_with_json(self, run, door):
        door.answers["retry"] = ZeroDivisionError("a\nb")
        error = json.loads(run("--json", "queue", "retry", "x").stderr)["error"]
        assert error.startswith("internal error (ZeroDivisionError: a b);")


def test_a_hanging_office_refuses_writes(run, door):
    door.answers["drop"] = NotAnswering(home="/h", pid=7, seconds=5)
    result = run("queue", "drop", "x", "--yes")
    assert result.exit_code == 1
    assert "does not answer within 5 s" in result.stderr


ENDLESS = """
import sys
from manydesks.cli.invocation import Invocation
from manydesks.cli.main import cli
class Reader:
    def close(self):
        pass
    def events(self, after, limit, kinds=None, trace=None):
        return [{"seq": after + n, "at": 0, "kind": "k", "trace": None, "message": None, "run": None, "session": None,
                 "agent": None, "data": {}} for n in range(1, limit + 1)]
    def first(self):
        return 1
    def agents(self):
        return []
    def queue_status(self, agent=None):
        return {"pending": 1}
    def office_paused(self):
        return False
    def dead(self, agent):
        letter = dict.fromkeys(("messageId", "agent", "sender", "at", "attempts", "reason"))
        return [{**letter, "text": "more than a buffer holds " * 10_000}]
class Door:
    def reader(self):
        return Reader()
cli.main(sys.argv[1:], obj=Invocation(door=Door()))
"""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_that_goes_away_ends_it_quietly(options):
    child = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, "events", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout.readline()
    child.stdout.close()
    with child.stderr:
        said = child.stderr.read()
    assert (child.wait(), said) == (141, b"")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "args", [("events",), ("events", "--json"), ("queue", "status"), ("queue", "dead"), ("--help",), ("--version",)]
)
def test_output_that_cannot_be_written_is_a_failure_told_once(unbuffered, args):
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", ENDLESS, *args],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    sentence = "The output cannot be written: No space left on device."
    expected = json.dumps({"error": sentence}) if "--json" in args else f"manydesks: {sentence}"
    assert (done.returncode, done.stderr) == (1, expected + "\n")


def test_another_full_disk_is_not_the_outputs(run, door):
    door.answers["retry"] = OSError(errno.ENOSPC, "No space left on device")
    result = run("queue", "retry", "x")
    assert result.exit_code == 70
    assert "internal error (OSError: " in result.stderr


def test_what_a_command_makes_is_the_owners(tmp_path):
    code = """
import os, pathlib, sys
from manydesks.cli.invocation import Invocation
from manydesks.cli.main import cli
class Door:
    def ask(self, verb, **args):
        pathlib.Path(sys.argv[1]).touch()
        return {}
before = os.umask(0)
assert before == 0, "importing the command line is no reason to change it"
cli.main(["queue", "retry", "x"], obj=Invocation(door=Door()))
"""
    made = tmp_path / "made"
    subprocess.run([sys.executable, "-c", code, made], umask=0, check=True, stdout=subprocess.DEVNULL)
    assert made.stat().st_mode & 0o777 == 0o600
