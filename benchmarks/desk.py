"""What a desk costs: `python -m benchmarks.desk [--quick] [--out FILE]`.

Beside the real `claude` driven by hand in the same run, against the same scripted model; without it those lines are
left out. Needs Linux with bubblewrap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from manydesks.domain.clock import SystemClock
from manydesks.domain.mail import Inbound
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.loop import Runner
from manydesks.runner.program import find_program
from manydesks.runner.providers.rehearsal import Rehearsal
from manydesks.testing.model import ScriptedModel, Turn
from manydesks.testing.office import OfficeProcess

RESULTS = Path(__file__).parent / "results" / "desk.txt"
#: a heartbeat is written every 5 s; one that is older than this was missed
BEAT_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round of everything; writes nothing")
    parser.add_argument("--out", type=Path, help="where the table goes")
    given = parser.parse_args()
    lines: list[str] = []

    def say(what: str, value: str, allowed: str = "") -> None:
        lines.append(f"{what:<58}{value:>14}   {allowed}".rstrip())
        print(lines[-1], flush=True)

    many = 3 if given.quick else 20
    say("a turn of rehearsal inside the host, CPU", f"{inside(20 * many) * 1000:.2f} ms", "≤ 5 ms")
    with office() as opened:
        sandboxed(opened, many, say)
    with office() as opened:
        crowd(opened, 5 if given.quick else 50, 8 if given.quick else 30, say)
    claude = find_program("claude")
    if claude is not None:
        beside(claude, 2 if given.quick else 15, 1 if given.quick else 7, say)
    if not given.quick or given.out is not None:
        (given.out or RESULTS).write_text("\n".join(lines) + "\n", encoding="utf-8")


Say = Callable[..., None]


def inside(turns: int) -> float:
    """CPU seconds of one turn: both files, the loop, the provider."""

    async def run(folder: Path) -> float:
        host = HostMailbox(folder, session="session_bench001", agent="amy")
        host.prepare()
        desk = DeskMailbox(folder / "in", folder / "out")
        desk.open()
        nudge, output = asyncio.Event(), asyncio.Event()
        runner = Runner(
            desk, Rehearsal(), agent="amy", clock=SystemClock(), nudge=nudge, on_output=output.set,
            idle_seconds=60, poll_seconds=60,
        )  # fmt: skip
        task = asyncio.create_task(runner.run())
        epoch, after = None, 0
        begun = time.process_time()
        for number in range(1, turns + 1):
            content = {"sender": "ada", "text": "hello"}
            row = Inbound(
                id=f"m_{number}", run=f"r_{number}", fence=number, kind="chat", at=1, tries=1, content=content
            )
            output.clear()
            host.put([row])
            nudge.set()
            await output.wait()
            found = host.collect(epoch, after)
            assert found is not None
            assert found.acks
            epoch, after = found.epoch, found.last_seq
        spent = time.process_time() - begun
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return spent / turns

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(Path(folder) / "session"))


@contextmanager
def office(settings: str = "", secrets: str = "") -> Iterator[OfficeProcess]:
    with tempfile.TemporaryDirectory(prefix="md") as folder:
        made = OfficeProcess(Path(folder) / "home")
        made.home.prepare()
        made.home.settings_file.write_text(settings)
        made.home.secrets_file.write_text(secrets)
        made.home.secrets_file.chmod(0o600)
        made.start()
        try:
            yield made
        finally:
            made.stop()


def timed(made: OfficeProcess, agent: str, text: str) -> float:
    begun = time.perf_counter()
    trace = made.ask(text, to=agent)
    took = time.perf_counter() - begun
    assert [message["status"] for message in trace["messages"]] == ["completed"], trace
    return took


def sandboxed(made: OfficeProcess, many: int, say: Say) -> None:
    cold, warm = [], []
    for number in range(many):
        made.door.ask("agent_add", id=f"a{number}", sandbox="bubblewrap")
        cold.append(timed(made, f"a{number}", "!say hello"))
        warm.append(timed(made, f"a{number}", "!say hello"))
    say("a cold turn of rehearsal in bubblewrap, p50", f"{statistics.median(cold) * 1000:.0f} ms")
    say("a warm turn of rehearsal in bubblewrap, p50", f"{statistics.median(warm) * 1000:.0f} ms")
    sizes = [resident(pid) for pid in programs(b"manydesks.runner", but=(b"bwrap",))]
    say("an idle runner, resident, the largest", f"{max(sizes) / 2**20:.1f} MiB", "≤ 60 MiB")


def crowd(made: OfficeProcess, many: int, seconds: int, say: Say) -> None:
    """So many at once, all at work: how old the oldest heartbeat ever got."""
    for number in range(many):
        made.door.ask("agent_add", id=f"a{number}", sandbox="bubblewrap")
    begun = time.perf_counter()
    traces = [
        made.door.ask("send", text=f"!sleep {seconds}\n!say done", to=f"a{number}")["traceId"] for number in range(many)
    ]
    beats: set[Path] = set()
    while len(beats) < many:
        beats = set(made.home.sessions.glob("*/*/out/heartbeat"))
        time.sleep(0.05)
    say(f"{many} sandboxed runners at work after", f"{time.perf_counter() - begun:.1f} s")
    oldest, until = 0.0, time.perf_counter() + seconds - 5
    while time.perf_counter() < until:
        oldest = max(oldest, *(time.time() - beat.stat().st_mtime for beat in beats))
        time.sleep(0.2)
    say(f"the oldest heartbeat of {many} runners", f"{oldest:.1f} s", f"≤ {BEAT_SECONDS:g} s")
    for trace in traces:
        (message,) = made.trace(trace)["messages"]
        assert (message["status"], message["attempts"]) == ("completed", 1), message


def beside(claude: Path, warm_turns: int, cold_turns: int, say: Say) -> None:
    """The same program, the same model, by hand and at a desk."""
    with ScriptedModel() as model:
        model.play(Turn(text="Hello.", times=None))
        hand_cold, hand_warm = by_hand(claude, model, warm_turns, cold_turns)
        settings = f'[upstreams.lm]\nkind = "anthropic"\nbase_url = "{model.base_url}"\nkey = "lm"\n'
        with office(settings, 'lm = "sk-bench-key-000"\n') as made:
            cold, warm = [], []
            for number in range(cold_turns):
                agent = f"c{number}"
                made.door.ask("agent_add", id=agent, provider="claude", model="m", options={"upstream": "lm"})
                cold.append(timed(made, agent, "hello"))
            timed(made, "c0", "hello")
            warm = [timed(made, "c0", "hello") for _ in range(warm_turns)]
    for what, by, ours, most in (("cold", hand_cold, cold, 300), ("warm", hand_warm, warm, 40)):
        hand, desk = statistics.median(by) * 1000, statistics.median(ours) * 1000
        say(f"a {what} turn of claude by hand, p50", f"{hand:.0f} ms")
        say(f"a {what} turn of claude at a desk, p50", f"{desk:.0f} ms")
        say(f"  what the office adds, {what}", f"{desk - hand:+.0f} ms", f"≤ +{most} ms")


def by_hand(claude: Path, model: ScriptedModel, warm_turns: int, cold_turns: int) -> tuple[list[float], list[float]]:
    cold, warm = [], []
    for number in range(cold_turns):
        with tempfile.TemporaryDirectory() as folder:
            environ = {
                "PATH": os.defpath,
                "HOME": folder,
                "ANTHROPIC_BASE_URL": model.base_url,
                "ANTHROPIC_API_KEY": "sk-hand",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
            }
            command = [
                str(claude),
                "-p",
                "--input-format",
                "stream-json",
                "--output-format",
                "stream-json",
                "--verbose",
            ]
            begun = time.perf_counter()
            process = subprocess.Popen(
                command, cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            say_to(process)
            cold.append(time.perf_counter() - begun)
            for _ in range(warm_turns + 1 if number == 0 else 0):
                begun = time.perf_counter()
                say_to(process)
                warm.append(time.perf_counter() - begun)
            process.communicate()
    return cold, warm[1:]


def say_to(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": "hello"}}) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        if json.loads(line)["type"] == "result":
            return
    raise AssertionError("claude ended before its result")


def programs(word: bytes, but: tuple[bytes, ...]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word in words and not any(other in words[0] for other in but):
                found.append(int(entry.name))
    return found


def resident(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
