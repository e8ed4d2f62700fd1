"""Forgetting in real offices: no byte of the text is left in any file of the home but where it is said to be."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import ManyDesksError
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

pytestmark = pytest.mark.slow

Make = Callable[..., Any]
SECRET = "the vault opens with seventeen turns to the left"


def holders(home: Path, text: str = SECRET) -> list[str]:
    """Every file that has it, as it is or as it stands in JSON."""
    needles = {text.encode(), json.dumps(text)[1:-1].encode()}
    found = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(
        str(path.relative_to(home)) for path in found if any(needle in path.read_bytes() for needle in needles)
    )


@pytest.mark.parametrize("sandbox", [None, "none", "bubblewrap"])
def test_no_byte_is_left(make_bench: Make, shell: Shell, tmp_path: Path, sandbox: str | None) -> None:
    bench = make_bench(sandbox or "none")
    home, agent = bench.office.home.path, "amy" if sandbox else "ben"
    bench.ask("!say before it", to=agent)
    file = tmp_path / "plan.txt"
    file.write_text(f"In the cellar {SECRET}.")
    asked = f"{SECRET}\n!tool send_message {json.dumps({'text': SECRET})}\n!say {SECRET}"
    sent = shell.value("send", "--to", agent, "--file", str(file), "--wait", asked)
    bench.ask("!say after it", to=agent)
    (home / "logs" / "desks").mkdir(exist_ok=True)
    (session,) = bench.office.home.sessions.glob(f"{agent}/*")
    with (home / "logs" / "desks" / f"{session.name}.log").open("a") as log:
        log.write(f"printed: {SECRET}\nand more\n")
    assert len(holders(home)) >= 5
    done = shell.value("forget", sent["messageId"], "--yes")
    assert (done["left"], done["madeAnew"], len(done["files"])) == (None, [], 1)
    assert done["logs"] == [f"logs/desks/{session.name}.log"]
    assert "and more" in (home / done["logs"][0]).read_text()
    assert holders(home) == []
    assert "(forgotten)" in shell.said("trace", sent["messageId"])
    # what came before and after it is there, and the agent goes on
    assert holders(home, "before it") != []
    assert shell.said("send", "--to", agent, "--wait", "!say and goes on").strip() == "and goes on"
    again = shell.value("forget", sent["messageId"], "--yes")
    assert (again["texts"], again["left"]) == (0, None)
    assert bench.office.stop() == 0
    assert holders(home) == []


def test_without_an_office(shell: Shell, home: Path) -> None:
    sent = shell.value("send", SECRET)
    assert "is pending; only one that has ended" in shell.refusal("forget", sent["messageId"], "--yes")
    shell.said("queue", "cancel", sent["messageId"])
    assert "--yes" in shell.refusal("forget", sent["messageId"])
    assert holders(home) != []
    shell.said("forget", sent["messageId"], "--yes")
    assert holders(home) == []
    assert "There is no message" in shell.refusal("forget", "console_nothing1", "--yes")


def test_what_followed_from_it(office: OfficeProcess, shell: Shell, home: Path) -> None:
    shell.said("agent", "add", "amy")
    sent = shell.value("send", "--wait", f"[@assistant: !say {SECRET}] -> [@amy: say it again]")
    done = shell.run("forget", sent["messageId"], "--yes")
    assert "that may quote it" in done.stderr
    assert holders(home) != []
    done = shell.run("forget", sent["messageId"], "--trace", "--yes")
    assert done.returncode == 0, done.stderr
    assert "that may quote it" not in done.stderr
    assert "keep it until `manydesks pipeline compact --vacuum --keep 0h`" in done.stderr
    assert holders(home) == []


def test_a_post_goes_from_the_desks_of_all_who_had_it(office: OfficeProcess, shell: Shell, home: Path) -> None:
    for name in ("amy", "ben", "cyd"):
        shell.said("agent", "add", name)
    shell.said("team", "add", "tt", "--leader", "amy", "--member", "ben,cyd")
    sent = shell.value("send", "--wait", f"[#tt: !say {SECRET} noted]")
    ids = [message["messageId"] for message in sent["messages"]]
    assert sum(name.startswith("sessions/") for name in holders(home)) >= 2 * len(ids)
    done = shell.run("forget", ids[0], "--yes")
    assert done.returncode == 0, done.stderr
    assert all(id in done.stdout for id in ids[1:])
    assert holders(home) == []


def test_a_reason_that_quotes_it_is_said(office: OfficeProcess, shell: Shell, home: Path) -> None:
    reason = f"{SECRET} of the customer"
    failed = shell.run("send", "--wait", f"!fail permanent {reason}")
    assert failed.returncode != 0
    (letter,) = shell.value("queue", "dead")
    shell.said("queue", "drop", letter["messageId"], "--yes")
    for _ in range(2):
        done = shell.run("forget", letter["messageId"], "--yes")
        assert done.returncode == 1
        assert "Not all of it is gone: the reasons in 2 events quote it" in done.stderr
    assert SECRET not in shell.said("trace", letter["messageId"])
    assert "(forgotten)" in shell.said("trace", letter["messageId"])
    assert holders(home) == ["office.db"]


def test_a_transcript_is_named_and_goes_with_a_new_beginning(office: OfficeProcess, shell: Shell, home: Path) -> None:
    sent = shell.value("send", "--wait", SECRET)
    (session,) = office.home.sessions.glob("assistant/*")
    (session / "state" / "transcript.jsonl").write_text(SECRET)
    done = shell.run("forget", sent["messageId"], "--yes")
    assert "what the provider of assistant keeps of the conversation" in done.stderr
    assert holders(home) == [f"sessions/assistant/{session.name}/state/transcript.jsonl"]
    done = shell.run("forget", sent["messageId"], "--reset", "--yes")
    assert "Begun anew: assistant" in done.stdout
    assert holders(home) == []
    assert len(list(office.home.sessions.glob("assistant/*"))) == 1
    shell.said("send", "--wait", "hello")
    assert len(list(office.home.sessions.glob("assistant/*"))) == 2


def test_a_desks_file_that_cannot_be_opened_goes_as_a_whole(office: OfficeProcess, shell: Shell, home: Path) -> None:
    sent = shell.value("send", "--wait", SECRET)
    (session,) = office.home.sessions.glob("assistant/*")
    damaged = session / "out" / "outbound.db"
    damaged.write_bytes(b"no database, but " + SECRET.encode())
    done = shell.value("forget", sent["messageId"], "--yes")
    assert done["madeAnew"] == [session.name]
    assert holders(home) == []
    assert shell.said("send", "--wait", "!say on we go").strip() == "on we go"


def test_killed_on_the_way_it_is_done_by_asking_again(make_office: Make, shell: Shell, home: Path) -> None:
    rng = random.Random(11)
    office = make_office()
    office.start()
    cut = 0
    for number in range(6):
        secret = f"{SECRET} number {number}"
        office.ask(f"!say plain {number}")
        sent = shell.value("send", "--wait", secret)
        failed: list[ManyDesksError] = []

        def ask(id: str = sent["messageId"], failed: list[ManyDesksError] = failed) -> None:
            try:
                office.door.ask("forget", id=id)
            except ManyDesksError as error:
                failed.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(rng.uniform(0, 0.08))
        office.kill()
        asking.join(30)
        cut += bool(failed)
        office.start()
        # half forgotten or not at all: whatever it was, it is still there to be named
        assert office.until(lambda reader, id=sent["messageId"]: reader.message(id)) is not None
        assert shell.value("forget", sent["messageId"], "--yes")["left"] is None
        assert holders(home, secret) == []
    assert cut > 0, "no kill met a forget under way"
    assert shell.said("send", "--wait", "!say still here").strip() == "still here"


def test_searching_does_not_touch_the_hosts_locks(office: OfficeProcess, home: Path) -> None:
    """A host that looked into its own store with a descriptor of its own would lose its locks with it."""
    sent = office.ask(SECRET)["messages"][0]["messageId"]
    office.door.ask("forget", id=sent)
    inode = (home / "office.db").stat().st_ino
    table = Path("/proc/locks").read_text()
    held = [line for line in table.splitlines() if f":{inode} " in line and f" {office.pid} " in line]
    assert held, subprocess.run(["cat", "/proc/locks"], capture_output=True, text=True).stdout
