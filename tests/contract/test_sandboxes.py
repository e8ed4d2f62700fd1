"""One suite for every sandbox that the registry finds: what the office relies on, however tightly it holds.

A sandbox that does not work on this machine fails here, with its own reason: a suite that skips would pass where desks
are open. `scripts/test` installs what the built-in ones need.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from manydesks.desk.sandboxes import tree
from manydesks.desk.sandboxes.base import Plan, Running, Sandbox
from manydesks.desk.sandboxes.limits import judge
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.errors import SandboxError

#: leaves its parents, its session and its group, and says so
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon", "w").write("x")
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("daemon"):
    time.sleep(0.005)
print("ready", flush=True)
"""
STAYS = "import time; time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
POLITE = """
import signal, sys
def bye(*_):
    open("bye", "w").write("bye")
    sys.exit(7)
signal.signal(signal.SIGTERM, bye)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture(params=Sandboxes().names())
async def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    found = Sandboxes().get(request.param).load()
    health = await found.check()
    assert health.works, f"{health.why} {health.advice}"
    return found


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    folders = {name: tmp_path.resolve() / name for name in ("workspace", "inbox", "outbox", "state")}
    for folder in folders.values():
        folder.mkdir()
    return Plan(argv=("/bin/true",), mark=f"contract-{tmp_path.name}-{os.getpid()}", **folders)


def python(plan: Plan, *code: str) -> Plan:
    return replace(plan, argv=(sys.executable, "-I", "-S", "-c", "\n".join(code)))


async def ran(sandbox: Sandbox, plan: Plan) -> tuple[int, str]:
    """The code of a plan that ends by itself, and all that it printed."""
    running = await sandbox.start(plan, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert running.stdout is not None
    printed = (await running.stdout.read()).decode()
    return await running.wait(), printed


async def ready(running: Running) -> None:
    assert running.stdout is not None
    assert await running.stdout.readline() == b"ready\n"


def members(plan: Plan) -> set[int]:
    return tree.marked(plan.mark)


@pytest.mark.parametrize("name", Sandboxes().names())
async def test_health_is_told_in_sentences(name: str) -> None:
    health = await Sandboxes().get(name).load().check()
    assert health.works, f"{health.why} {health.advice}"
    assert health.why.endswith(".")
    assert health.limits.endswith(".")


async def test_it_runs_in_the_workspace_with_its_code(sandbox: Sandbox, plan: Plan) -> None:
    assert await ran(sandbox, replace(plan, argv=("/bin/sh", "-c", "pwd; exit 3"))) == (3, f"{plan.workspace}\n")


async def test_a_signal_is_a_code_as_in_a_shell(sandbox: Sandbox, plan: Plan) -> None:
    code, _ = await ran(sandbox, replace(plan, argv=("/bin/sh", "-c", "kill -9 $$")))
    assert code == 128 + signal.SIGKILL


async def test_a_program_that_does_not_exist_ends_with_a_code(sandbox: Sandbox, plan: Plan) -> None:
    code, printed = await ran(sandbox, replace(plan, argv=("/no/such/program",)))
    assert code in (1, 127)
    assert "/no/such/program" in printed


async def test_the_folders_are_there(sandbox: Sandbox, plan: Plan) -> None:
    (plan.inbox / "letter").write_text("hello")
    script = f"cat {plan.inbox}/letter && echo o >{plan.outbox}/o && echo s >{plan.state}/s && echo w >w && echo $HOME"
    assert await ran(sandbox, replace(plan, argv=("/bin/sh", "-c", script))) == (0, f"hello{plan.state}\n")
    assert [path.read_text() for path in (plan.outbox / "o", plan.state / "s", plan.workspace / "w")] == [
        "o\n",
        "s\n",
        "w\n",
    ]


async def test_this_python_and_its_packages_are_there(sandbox: Sandbox, plan: Plan) -> None:
    code = "import manydesks.runner.loop, apsw, pydantic; print(manydesks.__file__)"
    import manydesks

    assert await ran(sandbox, replace(plan, argv=(sys.executable, "-c", code))) == (0, f"{manydesks.__file__}\n")


async def test_the_environment_is_the_plans_and_nothing_else(
    sandbox: Sandbox, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-for-desks")
    code, printed = await ran(
        sandbox, replace(plan, argv=("/usr/bin/env",), env={"COLOUR": "blue", "PATH": "/usr/bin"})
    )
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert code == 0
    assert names - {"PWD"} == {"PATH", "LANG", "TMPDIR", "HOME", "COLOUR", tree.MARK}
    assert "COLOUR=blue" in printed
    assert "sk-not-for-desks" not in printed


async def test_no_descriptor_is_inherited(sandbox: Sandbox, plan: Plan, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        # the list is read through a descriptor of its own, the highest
        code, printed = await ran(
            sandbox, python(plan, "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
        )
    assert (code, printed) == (0, "[0, 1, 2, 3]\n")


async def test_standard_input_is_empty(sandbox: Sandbox, plan: Plan) -> None:
    assert await ran(sandbox, replace(plan, argv=("/bin/cat",))) == (0, "")


async def test_stop_lets_the_program_end_in_good_order(sandbox: Sandbox, plan: Plan) -> None:
    running = await sandbox.start(python(plan, POLITE), stdout=subprocess.PIPE)
    await ready(running)
    await running.stop(grace=60)
    assert (plan.workspace / "bye").read_text() == "bye"
    assert await running.wait() == 7
    assert members(plan) == set()


async def test_stop_kills_what_does_not_listen(sandbox: Sandbox, plan: Plan) -> None:
    running = await sandbox.start(python(plan, STUBBORN, "print('ready', flush=True)", STAYS), stdout=subprocess.PIPE)
    await ready(running)
    await running.stop(grace=0.1)
    assert await running.wait() == 128 + signal.SIGKILL
    assert members(plan) == set()


async def test_stop_ends_a_daemon_too(sandbox: Sandbox, plan: Plan) -> None:
    running = await sandbox.start(python(plan, STUBBORN, DAEMON, STAYS), stdout=subprocess.PIPE)
    await ready(running)
    assert len(members(plan)) >= 2
    await running.stop(grace=0.1)
    assert members(plan) == set()


async def test_a_daemon_does_not_outlive_the_program(sandbox: Sandbox, plan: Plan) -> None:
    code, printed = await ran(sandbox, python(plan, DAEMON))
    assert (code, printed) == (0, "ready\n")
    assert members(plan) == set()


async def test_a_daemon_without_its_environment_does_not_outlive_it_either(sandbox: Sandbox, plan: Plan) -> None:
    renamed = DAEMON.replace(
        "        time.sleep(600)",
        f"        os.execve({sys.executable!r}, ['python', '-I', '-S', '-c', {STAYS!r}, {plan.mark!r}], {{}})",
    )
    await ran(sandbox, python(plan, renamed))
    assert [command for command in commands() if command.endswith(plan.mark)] == []


async def test_stopping_again_and_after_the_end_changes_nothing(sandbox: Sandbox, plan: Plan) -> None:
    running = await sandbox.start(plan)
    assert await running.wait() == 0
    await running.stop()
    await running.stop()
    assert await running.wait() == 0
    assert running.read().tasks == 0


async def test_two_at_once_do_not_touch_each_other(sandbox: Sandbox, plan: Plan) -> None:
    one = await sandbox.start(python(plan, "print('ready', flush=True)", STAYS), stdout=subprocess.PIPE)
    other_plan = replace(plan, mark=f"{plan.mark}-other")
    other = await sandbox.start(python(other_plan, "print('ready', flush=True)", STAYS), stdout=subprocess.PIPE)
    await asyncio.gather(ready(one), ready(other))
    await one.stop(grace=0.1)
    assert members(other_plan)
    await other.stop(grace=0.1)
    assert members(other_plan) == set()


async def test_use_of_the_whole_tree_is_read(sandbox: Sandbox, plan: Plan) -> None:
    hungry = (
        "import os; os.fork(); b = bytearray(os.urandom(1 << 16)) * 800; sum(range(10**6)); print('ready', flush=True)"
    )
    running = await sandbox.start(python(plan, hungry, STAYS), stdout=subprocess.PIPE)
    await ready(running)
    await ready(running)
    used = running.read()
    try:
        assert used.tasks >= 2
        assert 100 << 20 < used.memory_bytes < 400 << 20
        assert used.cpu_seconds > 0
        assert judge(used, plan.limits) is None
        assert "MiB are allowed" in str(judge(used, replace(plan.limits, memory_bytes=50 << 20)))
    finally:
        await running.stop(grace=0.1)


async def test_open_files_and_core_dumps_are_limited(sandbox: Sandbox, plan: Plan) -> None:
    code = "import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_CORE))"
    assert await ran(sandbox, python(plan, code)) == (0, "(4096, 4096) (0, 0)\n")


async def test_setuid_programs_give_nothing(sandbox: Sandbox, plan: Plan) -> None:
    _, printed = await ran(sandbox, replace(plan, argv=("/bin/grep", "NoNewPrivs", "/proc/self/status")))
    assert printed.split() == ["NoNewPrivs:", "1"]


async def test_a_thread_may_not_start_one(sandbox: Sandbox, plan: Plan) -> None:
    caught: list[BaseException] = []

    def start() -> None:
        try:
            asyncio.run(_started(sandbox, plan))
        except SandboxError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert "from the main one" in str(caught[0])


@pytest.mark.parametrize("field", ["workspace", "inbox", "outbox", "state"])
async def test_a_folder_that_is_missing_or_a_link_is_refused(sandbox: Sandbox, plan: Plan, field: str) -> None:
    folder = plan.workspace.parent
    with pytest.raises(SandboxError, match="does not exist"):
        await sandbox.start(replace(plan, **{field: folder / "missing"}))
    (folder / "link").symlink_to("/etc")
    with pytest.raises(SandboxError, match="symbolic link"):
        await sandbox.start(replace(plan, **{field: folder / "link"}))


OFFICE = """
import asyncio, sys
from pathlib import Path
from manydesks.desk.sandboxes.base import Plan
from manydesks.desk.sandboxes.registry import Sandboxes

async def main(name, mark, folder, code):
    folders = {part: Path(folder) / part for part in ("workspace", "inbox", "outbox", "state")}
    plan = Plan(argv=(sys.executable, "-I", "-S", "-c", code), mark=mark, **folders)
    running = await Sandboxes().get(name).load().start(plan, stdout=sys.stdout.fileno())
    await running.wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("name", Sandboxes().names())
def test_the_office_killed_is_the_end_of_the_whole_tree(name: str, plan: Plan) -> None:
    code = f"{STUBBORN}\n{DAEMON}\n{STAYS}"
    argv = [sys.executable, "-c", OFFICE, name, plan.mark, str(plan.workspace.parent), code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as office:
        assert office.stdout is not None
        assert office.stdout.readline() == "ready\n"
        assert len(members(plan)) >= 2
        office.kill()
        office.wait()
        until_gone(plan)


def until_gone(plan: Plan) -> None:
    deadline = time.monotonic() + 20
    while left := members(plan):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


async def _started(sandbox: Sandbox, plan: Plan) -> None:
    await sandbox.start(plan)


def commands() -> Iterator[str]:
    """The command line of every process of the machine."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):
                yield (process / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
