"""A program at a bubblewrap desk tries to get out: each try is a real one, against real things on this machine.

Where bubblewrap does not work these tests fail, with the reason: `scripts/test` installs it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import manydesks
from manydesks.desk.sandboxes import tree
from manydesks.desk.sandboxes.base import Plan, Running
from manydesks.desk.sandboxes.bubblewrap import Bubblewrap
from manydesks.desk.sandboxes.limits import Limits, judge
from manydesks.desk.sandboxes.mounts import Allowed, Ask, resolve
from manydesks.domain.errors import MailboxRefused, SandboxError
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.settings.home import Home

SECRET = "sk-the-real-key-of-the-office"


@pytest.fixture
def office(tmp_path: Path) -> Home:
    """A home with secrets, a store, and two agents."""
    home = Home(tmp_path.resolve() / "home")
    home.prepare()
    home.settings_file.write_text("# settings\n")
    home.secrets_file.write_text(f'key = "{SECRET}"\n')
    home.secrets_file.chmod(0o600)
    home.office_db.write_bytes(b"SQLite format 3\0")
    for agent in ("coder", "writer"):
        home.workspace(agent).mkdir()
        (home.workspace(agent) / "diary").write_text(f"{agent}: {SECRET}")
        for part in ("in", "out", "state", "host"):
            (home.session(agent, "s1") / part).mkdir(parents=True)
    return home


@pytest.fixture
def plan(office: Home) -> Plan:
    session = office.session("coder", "s1")
    return Plan(
        argv=("/bin/true",),
        mark=f"escape-{office.path.parent.name}-{os.getpid()}",
        workspace=office.workspace("coder"),
        inbox=session / "in",
        outbox=session / "out",
        state=session / "state",
        hidden=(office.path,),
    )


async def sh(plan: Plan, script: str) -> tuple[int, str]:
    return await ran(replace(plan, argv=("/bin/sh", "-c", script)))


async def python(plan: Plan, code: str, *arguments: str) -> tuple[int, str]:
    return await ran(replace(plan, argv=(sys.executable, "-I", "-S", "-c", code, *arguments)))


async def ran(plan: Plan) -> tuple[int, str]:
    """The code, and all that was printed."""
    running = await Bubblewrap().start(plan, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert running.stdout is not None
    printed = (await running.stdout.read()).decode(errors="replace")
    return await running.wait(), printed


# files


async def test_nothing_of_the_home_is_there(plan: Plan, office: Home) -> None:
    places = [
        office.settings_file,
        office.secrets_file,
        office.office_db,
        office.workspace("writer"),
        office.session("writer", "s1"),
        office.session("coder", "s1") / "host",
        office.run,
        office.logs,
    ]
    tries = "; ".join(f"test -e {place} && echo {place}" for place in places)
    assert await sh(plan, f"{tries}; true") == (0, "")
    # what leads to the mounted folders is there, empty but for them
    assert await sh(plan, f"ls {office.path} {office.workspaces}") == (
        0,
        f"{office.path}:\nsessions\nworkspaces\n\n{office.workspaces}:\ncoder\n",
    )


async def test_nothing_of_the_person_is_there(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = sorted(path.name for path in Path.home().iterdir())
    _, seen = await sh(plan, f"ls -A {Path.home()}")
    # the interpreter may lie in the person's home: then the way to it is there, and nothing else
    way = {part for part in (Path(sys.base_prefix), Path(sys.prefix)) if part.is_relative_to(Path.home())}
    assert set(seen.split()) & set(mine) <= {part.relative_to(Path.home()).parts[0] for part in way}
    assert (await sh(plan, "cat /etc/shadow /etc/ssh/* /etc/ssl/private/* /var/lib/* /sys/kernel/*"))[0] != 0


async def test_a_link_in_the_workspace_leads_nowhere(plan: Plan, office: Home) -> None:
    for number, target in enumerate((office.secrets_file, "../writer/diary", "/etc/shadow", "/proc/1/root/etc/shadow")):
        (plan.workspace / f"link{number}").symlink_to(target)
        code, printed = await sh(plan, f"cat link{number}")
        assert (code, SECRET in printed) == (1, False), printed


async def test_the_inbox_cannot_be_written(plan: Plan) -> None:
    (plan.inbox / "inbound.db").write_text("the host's")
    for script in (
        f"echo x >{plan.inbox}/inbound.db",
        f"rm {plan.inbox}/inbound.db",
        f"chmod 777 {plan.inbox}",
        f"mv {plan.inbox} {plan.outbox}/",
        f"mount -o remount,rw {plan.inbox}",
        f"umount {plan.inbox}",
    ):
        code, printed = await sh(plan, script)
        assert code != 0, (script, printed)
    assert (plan.inbox / "inbound.db").read_text() == "the host's"
    assert sorted(path.name for path in plan.inbox.parent.iterdir()) == ["host", "in", "out", "state"]


async def test_the_system_and_the_program_cannot_be_written(plan: Plan) -> None:
    import manydesks

    places = ("/", "/dev", "/etc", "/usr/bin", sys.prefix, sys.base_prefix, Path(manydesks.__file__).parent)
    for place in places:
        code, printed = await sh(plan, f"touch {place}/x")
        assert (code, "Read-only file system" in printed) == (1, True), printed


async def test_a_home_that_every_desk_could_see_is_refused(plan: Plan) -> None:
    with pytest.raises(SandboxError, match="move it elsewhere"):
        await Bubblewrap().start(replace(plan, hidden=(Path(sys.prefix) / "home",)))
    with pytest.raises(SandboxError, match="move it elsewhere"):
        await Bubblewrap().start(replace(plan, programs=(plan.hidden[0].parent,)))


async def test_a_given_folder_is_read_only_and_its_keys_are_covered(plan: Plan, office: Home) -> None:
    project = office.path.parent / "project"
    (project / ".ssh").mkdir(parents=True)
    (project / ".ssh" / "id_rsa").write_text(SECRET)
    (project / ".env").write_text(SECRET)
    (project / "code.py").write_text("pass\n")
    (project / "out").symlink_to(office.secrets_file)
    for write in (False, True):
        allowed = [Allowed(path=project, write=write)]
        given = replace(plan, mounts=resolve([Ask(path=str(project), write=True)], allowed, office))
        code, printed = await sh(given, f"cd {project}; cat code.py; cat .env .ssh/id_rsa out; ls -A .ssh; echo x >new")
        assert printed.startswith("pass\n")
        assert SECRET not in printed
        assert (project / "new").exists() is (code == 0) is write
        for script in ("rm -f .env", "mv .env e; cat e", "ln .env e; cat e", "umount .env; cat .env", "rmdir .ssh"):
            code, printed = await sh(given, f"cd {project}; {script}")
            assert code != 0, script
            assert SECRET not in printed
        assert (project / ".env").read_text() == SECRET


# the network


@pytest.fixture
def listener() -> Iterator[int]:
    """A port of the machine's loopback that really answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        stop = threading.Event()

        def answer() -> None:
            while not stop.is_set():
                connection, _ = server.accept()
                with connection:
                    connection.sendall(b"hello from the host")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        yield port
        stop.set()
        with socket.create_connection(("127.0.0.1", port)) as last:
            last.recv(100)
        thread.join(10)


CONNECT = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).recv(100))"


async def test_ports_of_the_host_are_not_there(plan: Plan, listener: int) -> None:
    with socket.create_connection(("127.0.0.1", listener)) as outside:  # it does answer
        assert outside.recv(100) == b"hello from the host"
    code, printed = await python(plan, CONNECT, str(listener))
    assert code == 1
    assert "Connection refused" in printed


async def test_there_is_a_loopback_of_its_own_and_no_other_interface(plan: Plan) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        "c = socket.create_connection(s.getsockname()); print(sorted(n for _, n in socket.if_nameindex()))"
    )
    assert await python(plan, code) == (0, "['lo']\n")


async def test_abstract_sockets_of_the_host_are_not_there(plan: Plan) -> None:
    name = f"\0{plan.mark}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code, printed = await python(
            plan, "import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1])", plan.mark
        )
    assert (code, "Connection refused" in printed) == (1, True), printed


@pytest.fixture
def way_out() -> Iterator[Path]:
    """A listening socket at a short path."""
    with tempfile.TemporaryDirectory(prefix="md-") as folder, socket.socket(socket.AF_UNIX) as server:
        path = Path(folder).resolve() / "proxy"
        server.bind(str(path))
        server.listen()
        yield path


async def test_the_proxys_socket_is_the_only_way_out(plan: Plan, way_out: Path) -> None:
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('through')"
    assert await python(replace(plan, proxy=way_out), code, str(way_out)) == (0, "through\n")
    left, printed = await python(plan, code, str(way_out))
    assert (left, "No such file" in printed) == (1, True)


@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_PACKET", "AF_ALG"])
async def test_sockets_that_no_namespace_holds_are_refused(plan: Plan, family: str) -> None:
    code = f"import socket; socket.socket({int(getattr(socket, family))}, socket.SOCK_STREAM)"
    printed = (await python(plan, code))[1]
    assert "Address family not supported" in printed


# processes and the kernel


async def test_processes_of_the_host_are_not_there(plan: Plan) -> None:
    code = (
        "import os, sys\n"
        "print(sorted(int(p) for p in os.listdir('/proc') if p.isdecimal()) == sorted({1, os.getpid()}))\n"
        f"for what in ('environ', 'cmdline', 'root', 'mem'): print(os.path.exists(f'/proc/{os.getpid()}/{{what}}'))\n"
    )
    assert await python(plan, code) == (0, "True\n" + "False\n" * 4)
    assert "No such process" in (await sh(plan, f"kill -0 {os.getpid()}"))[1]


async def test_the_first_process_tells_nothing_of_the_office(
    plan: Plan, office: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    _, printed = await sh(plan, "cat /proc/1/environ /proc/1/cmdline; ls -l /proc/1/fd /proc/1/cwd; env")
    assert SECRET not in printed
    assert "--ro-bind" not in printed
    assert str(office.secrets_file) not in printed


async def test_it_is_nobody_in_particular(plan: Plan) -> None:
    code, printed = await sh(plan, "id -u; id -un; hostname; cat /etc/passwd | wc -l; grep CapEff /proc/self/status")
    assert (code, printed.split()) == (0, ["1000", "desk", "desk", "1", "CapEff:", "0" * 16])


WRITABLE = """
import os
for folder, folders, files in os.walk("/proc"):
    if folder == "/proc":
        folders[:] = [name for name in folders if not name.isdecimal() and not name.endswith("self")]
    for name in files:
        path = os.path.join(folder, name)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        print(path)
"""


async def test_no_setting_of_the_kernel_can_be_opened_for_writing(plan: Plan) -> None:
    # opened only: a desk of root could set `core_pattern`, the program that the host's kernel runs at a crash
    assert await python(plan, WRITABLE) == (0, "")


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs x /tmp",
        "mount --bind / /tmp",
        "mount -t proc x /tmp",
        "mount -o remount,rw /usr",
        "umount /usr",
        "umount -l /proc/sys",
        "unshare -U true",
        "unshare -m true",
        "unshare -Urm true",
        "nsenter -t 1 -m true",
        "chroot /tmp true",
        "mknod null c 1 3",
        "mknod /tmp/disk b 254 0",
        "chmod 666 /dev/null",
        "chmod 666 /proc/self/fd/0",
        "chown 0 /dev/null",
        "hostname free",
        "su -c true",
        "mkdir /sys/fs/cgroup/x",
    ],
)
async def test_what_needs_privilege_fails(plan: Plan, script: str) -> None:
    before = mode_of("/dev/null")
    code, printed = await sh(plan, f"PATH=$PATH:/sbin:/usr/sbin; {script}")
    assert code not in (0, 127), printed
    assert mode_of("/dev/null") == before


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode


async def test_system_calls_of_the_list_are_refused(plan: Plan) -> None:
    code = (
        "import ctypes, errno, json, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "said = {}\n"
        "for name, number in json.loads(sys.argv[1]).items():\n"
        "    ctypes.set_errno(0)\n"
        "    result = libc.syscall(number, 0, 0, 0, 0, 0)\n"
        "    said[name] = [result, errno.errorcode.get(ctypes.get_errno(), '')]\n"
        "print(json.dumps(said))\n"
    )
    from manydesks.desk.sandboxes.seccomp import MACHINES

    numbers = dict(MACHINES[os.uname().machine].refused)
    _, printed = await python(plan, code, json.dumps(numbers))
    said = json.loads(printed)
    assert said.keys() == numbers.keys()
    assert {name: answer for name, answer in said.items() if answer not in ([-1, "EPERM"], [-1, "ENOSYS"])} == {}


async def test_the_host_cannot_be_traced_and_tracing_the_first_process_gains_nothing(plan: Plan) -> None:
    # the first process, bwrap's own, has the same filter and no more privileges; a desk that stops it stops itself
    _, printed = await sh(plan, "grep -hE '^(Seccomp|NoNewPrivs|CapPrm|CapEff):' /proc/1/status")
    assert printed.split() == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]
    attach = f"print([libc.ptrace(16, pid, 0, 0) for pid in ({os.getpid()}, {os.getppid()}, 1)], flush=True)"
    code = f"import ctypes, time; libc = ctypes.CDLL(None)\n{attach}\ntime.sleep(600)"
    argv = (sys.executable, "-I", "-S", "-c", code)
    running = await Bubblewrap().start(replace(plan, argv=argv), stdout=subprocess.PIPE)
    assert running.stdout is not None
    assert (await running.stdout.readline()).startswith(b"[-1, -1, ")
    await running.stop(grace=0)
    assert tree.marked(plan.mark) == set()


# using too much


#: 512 processes if nothing holds it
BOMB = """
import os, time
print("ready", flush=True)
try:
    for _ in range(9):
        os.fork()
except OSError as error:
    print(error.strerror, flush=True)
time.sleep(600)
"""


async def test_a_fork_bomb_is_ended_as_a_whole(plan: Plan) -> None:
    limited = replace(plan, limits=Limits(tasks=60), argv=(sys.executable, "-I", "-S", "-c", BOMB))
    running = await Bubblewrap().start(limited, stdout=subprocess.PIPE)
    assert running.stdout is not None
    await running.stdout.readline()
    if os.geteuid() == 0:  # for root the kernel counts no processes, so the office's watch does
        reason = await asyncio.to_thread(watched, running, limited.limits)
        assert "60 are allowed" in reason
    else:
        assert b"unavailable" in await running.stdout.readline()
        assert running.read().tasks <= 62
    await running.stop(grace=0)
    assert tree.marked(plan.mark) == set()


def watched(running: Running, limits: Limits) -> str:
    """Looks until the desk is over its limits."""
    while (reason := judge(running.read(), limits)) is None:
        time.sleep(0.01)
    return reason


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_memory_file_systems_are_its_own_and_bounded(plan: Plan, place: str) -> None:
    limited = replace(plan, limits=Limits(tmp_bytes=4 << 20))
    script = f"ls {place}; echo end; head -c 20000000 /dev/zero >{place}/{plan.mark}; stat -c %s {place}/{plan.mark}"
    code, printed = await sh(limited, script)
    assert code == 0
    # the ways to the test's own folders and to the runner's code are there, and nothing else of the machine's /tmp
    ways = {Path(way).parts[2] for way in (limited.workspace, sys.prefix, manydesks.__path__[0]) if _is_in(way, "/tmp")}
    assert set(printed.partition("end\n")[0].split()) <= ways
    assert "No space left" in printed
    assert int(printed.split()[-1]) <= 4 << 20
    assert plan.mark not in names_in(place)


def names_in(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


async def test_a_file_has_a_largest_size(plan: Plan) -> None:
    limited = replace(plan, limits=Limits(file_bytes=1 << 20))
    code, _ = await sh(limited, "head -c 20000000 /dev/zero >big")
    assert code != 0
    assert (plan.workspace / "big").stat().st_size == 1 << 20


# the mailbox, written from inside


@pytest.fixture
def mailbox(plan: Plan) -> HostMailbox:
    folder = plan.inbox.parent
    host = HostMailbox(folder, session="s1", agent="coder")
    host.prepare()
    DeskMailbox(folder / "in", folder / "out").open()
    return host


def _super_journal(out: Path, victim: Path) -> bytes:
    """A journal that is hot, and names another file for SQLite to delete once it was replayed."""
    size = (out / "outbound.db").stat().st_size
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + (0).to_bytes(4, "big") + (0).to_bytes(4, "big") + (size // 4096).to_bytes(4, "big")
    header += (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    name = os.fsencode(victim)
    checksum = sum(name) & 0xFFFFFFFF
    pending = (0x40000000 // 4096 + 1).to_bytes(4, "big")
    end = pending + name + len(name).to_bytes(4, "big") + checksum.to_bytes(4, "big") + magic
    return header.ljust(512, b"\0") + end


def link(out: Path, office: Home) -> str:
    return f"rm outbound.db; ln -s {office.office_db} outbound.db"


def fifo(out: Path, office: Home) -> str:
    return "rm outbound.db; mkfifo outbound.db"


def journal_link(out: Path, office: Home) -> str:
    return f"ln -sf {office.secrets_file} outbound.db-journal"


def forged_journal(out: Path, office: Home) -> str:
    (out.parent / "state" / "forged").write_bytes(_super_journal(out, office.office_db))
    return "cp ../state/forged outbound.db-journal"


@pytest.mark.parametrize("forge", [link, fifo, journal_link, forged_journal])
async def test_the_host_refuses_what_a_desk_forged_and_touches_nothing(
    plan: Plan, office: Home, mailbox: HostMailbox, forge: Callable[[Path, Home], str]
) -> None:
    before = {path: path.read_bytes() for path in (office.office_db, office.secrets_file)}
    script = forge(plan.outbox, office)
    assert await sh(plan, f"cd {plan.outbox} && {script}") == (0, "")
    with pytest.raises(MailboxRefused):
        mailbox.collect(None, 0)
    assert {path: path.read_bytes() for path in before} == before


async def test_a_super_journal_replayed_inside_deletes_nothing_outside(
    plan: Plan, office: Home, mailbox: HostMailbox
) -> None:
    (plan.state / "forged").write_bytes(_super_journal(plan.outbox, office.office_db))
    code = (
        "import shutil, sqlite3, sys; shutil.copy(sys.argv[2], sys.argv[1] + '-journal')\n"
        "print(sqlite3.connect(sys.argv[1]).execute('select count(*) from sqlite_master').fetchone()[0] > 0)\n"
    )
    said = await python(plan, code, str(plan.outbox / "outbound.db"), str(plan.state / "forged"))
    assert said == (0, "True\n")
    assert office.office_db.exists()
    # the same replay on the host would have: that is why it never does
    copy = plan.outbox.parent / "host" / "copy.db"
    copy.write_bytes((plan.outbox / "outbound.db").read_bytes())
    victim = plan.outbox.parent / "host" / "victim"
    victim.write_text("x")
    copy.with_name("copy.db-journal").write_bytes(_super_journal(plan.outbox, victim))
    with sqlite3.connect(copy) as connection:
        connection.execute("select count(*) from sqlite_master").fetchone()
    connection.close()
    assert not victim.exists()


async def test_a_desk_writes_its_mailbox_from_inside(plan: Plan, mailbox: HostMailbox) -> None:
    code = (
        "import sys; from pathlib import Path; from manydesks.mailbox.desk import DeskMailbox\n"
        "from manydesks.domain.mail import Step\n"
        "desk = DeskMailbox(Path(sys.argv[1]), Path(sys.argv[2])); desk.open()\n"
        "desk.write(steps=[Step(run='run_1', at=1, type='text', data={'text': 'from inside'})])\n"
    )
    argv = (sys.executable, "-c", code, str(plan.inbox), str(plan.outbox))
    assert await ran(replace(plan, argv=argv)) == (0, "")
    assert [step.data for step in mailbox.collect(None, 0).steps] == [{"text": "from inside"}]


def _is_in(way: str | Path, folder: str) -> bool:
    return Path(way).resolve().is_relative_to(folder)
