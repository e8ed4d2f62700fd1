"""Delivery through a real host: a stranger's channel, crashes in the sending window, clients that fetch, people who
decide."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput, Duplicate, UnknownAgent
from manydesks.store.reader import Reader
from manydesks.store.store import Store
from manydesks.testing.office import OfficeProcess
from manydesks.testing.post import Platform
from manydesks.testing.shell import Shell

QUICK = {"MANYDESKS_RETRY__BASE_SECONDS": "0.02", "MANYDESKS_RETRY__JITTER": "0"}
LONG = " ".join(f"word{number:02}" for number in range(60))


class Post:
    """An office on the test's home to which somebody has added a channel of their own."""

    def __init__(self, home: Path, tmp_path: Path) -> None:
        self.home = home
        self.platform = Platform(tmp_path / "platform")
        packages = tmp_path / "packages"
        info = packages / "postal-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: postal\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[manydesks.channels]\npost = manydesks.testing.post:CHANNEL\n")
        path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
        self._environ = {**os.environ, **QUICK, "PYTHONPATH": path}
        self.made: list[OfficeProcess] = []

    def settings(self, **section: object) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        values = {"folder": str(self.platform.folder), **section}
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        (self.home / "settings.toml").write_text("\n".join(("[channels.post]", *lines, "")))

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that knows the channel, too."""
        line = [sys.executable, "-m", "manydesks", "--home", str(self.home), *words]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, env=self._environ, check=False)

    def open(self) -> OfficeProcess:
        office = OfficeProcess(self.home, self._environ)
        self.made.append(office)
        office.start()
        return office


@pytest.fixture
def post(home: Path, tmp_path: Path) -> Iterator[Post]:
    made = Post(home, tmp_path)
    yield made
    for office in made.made:
        office.kill()


def statuses(reader: Reader) -> list[str]:
    return [status for (status,) in reader._all("select status from responses order by id")]


def ended(*wanted: str) -> Callable[[Reader], list[str] | None]:
    def look(reader: Reader) -> list[str] | None:
        found = statuses(reader)
        return found if found == list(wanted) else None

    return look


def test_a_message_comes_in_and_its_answer_goes_out(post: Post) -> None:
    post.settings()
    post.platform.write("letter_1", "!say hello there", place="attic")
    office = post.open()
    office.until(ended("acked"))
    assert [(letter["place"], letter["text"]) for letter in post.platform.sent()] == [("attic", "hello there")]
    # the platform repeats itself: it is recognised
    post.platform.write("letter_1", "!say hello there", place="attic")
    post.platform.write("letter_2", "!say again", place="attic")
    office.until(ended("acked", "acked"))
    assert post.platform.texts() == ["hello there", "again"]
    assert office.stop() == 0


def test_accounts_are_apart(post: Post, tmp_path: Path) -> None:
    work = Platform(tmp_path / "work")
    post.home.mkdir(parents=True)
    (post.home / "settings.toml").write_text(
        f'[channels.post.instances.home]\nfolder = "{post.platform.folder}"\n'
        f'[channels.post.instances.work]\nfolder = "{work.folder}"\n'
    )
    work.close("strike")
    post.platform.write("a_1", "!say at home")
    office = post.open()
    office.until(ended("acked"))
    work.open()
    work.write("b_1", "!say at work")
    office.until(ended("acked", "acked"))
    assert (post.platform.texts(), work.texts()) == (["at home"], ["at work"])


@pytest.mark.parametrize(
    ("rule", "after", "arrived"),
    [("ask", ["unsure", "acked"], 1), ("resend", ["acked", "acked"], 2), ("drop", ["withdrawn", "acked"], 1)],
)
@pytest.mark.parametrize("when", ["die_before", "die_after"])
def test_kill_in_the_sending_window(post: Post, rule: str, after: list[str], arrived: int, when: str) -> None:
    post.settings(cut_off=rule)
    post.platform.fail(("first", when, 1))
    post.platform.write("letter_1", "!say first")
    office = post.open()
    assert office.wait(30) == -signal.SIGKILL
    post.platform.write("letter_2", "!say second")
    again = post.open()
    again.until(ended(*after))
    out = post.platform.texts()
    assert out.count("first") == (arrived if when == "die_after" else arrived - 1)
    assert out.count("second") == 1
    assert again.stop() == 0


def test_kill_between_two_pieces(post: Post) -> None:
    post.settings(cut_off="resend")
    post.platform.fail(("word35", "die_before", 1))
    post.platform.write("letter_1", f"!say {LONG}")
    office = post.open()
    assert office.wait(30) == -signal.SIGKILL
    out = len(post.platform.sent())
    assert out == 1
    again = post.open()
    again.until(ended("acked"))
    assert " ".join(post.platform.texts()) == LONG
    assert len(post.platform.sent()) == 3


def test_an_unsure_answer_is_for_a_person_to_decide(post: Post, shell: Shell) -> None:
    post.settings()
    post.platform.fail(("first", "lost_after", 1), ("second", "lost", 1))
    post.platform.write("letter_1", "!say first")
    office = post.open()
    office.until(ended("unsure"))
    post.platform.write("letter_2", "!say second")
    office.until(ended("unsure", "unsure"))
    listed = shell.run("responses", "list", "--unsure", "--json")
    first, second = json.loads(listed.stdout)
    assert (first["text"], first["status"], first["reason"]) == (
        "first", "unsure", "OSError: the postman fell on his way back",
    )  # fmt: skip
    assert "unsure" in shell.run("responses", "list").stdout
    page = shell.run("responses", "show", str(first["id"])).stdout
    assert page.startswith(f"response  {first['id']}\nstate     unsure")
    assert page.endswith("\n\nfirst\n")
    assert "There is no response '77'" in shell.run("responses", "show", "77").stderr
    done = shell.run("responses", "resend", str(second["id"]))
    assert (done.returncode, done.stdout) == (0, f"Answer {second['id']} is pending again.\n")
    office.until(ended("unsure", "acked"))
    assert shell.run("responses", "drop", str(first["id"]), "--yes").returncode == 0
    office.until(ended("withdrawn", "acked"))
    refused = shell.run("responses", "resend", str(first["id"]))
    assert refused.returncode == 1
    assert "is withdrawn; only a dead, an unsure or an expired one can be sent again." in refused.stderr
    assert post.platform.texts() == ["first", "second"]
    assert "No answer waits for you." in shell.run("responses", "list").stderr


def test_a_channel_that_is_away_holds_and_then_delivers_in_order(post: Post, shell: Shell) -> None:
    post.settings()
    post.platform.write("letter_1", "!say first")
    office = post.open()
    office.until(ended("acked"))
    post.platform.close("the post office is closed")
    office.until(lambda reader: reader.events(0, 1000, ["channel_down"]))
    for text in ("two", "three"):
        with_store(office, f"!say {text}", key=f"letter_{text}")
    office.until(ended("acked", "held", "held"))
    looked = post.command("doctor", "--json")
    (found,) = [one for one in json.loads(looked.stdout)["findings"] if one["what"] == "channel post"]
    assert (looked.returncode, found["level"]) == (1, "bad")
    assert found["says"] == "The channel 'post' is down: the post office is closed."
    listed = json.loads(shell.run("responses", "list", "--held", "--json").stdout)
    assert {row["reason"] for row in listed} == {"the channel 'post' is down: the post office is closed"}
    post.platform.open()
    office.until(ended("acked", "acked", "acked"))
    assert post.platform.texts() == ["first", "two", "three"]


def with_store(office: OfficeProcess, text: str, key: str) -> None:
    """Somebody wrote while the office was down: its state is the same as if the channel had handed it in."""
    office.stop()
    store = Store(office.home.office_db)
    try:
        incoming = Incoming(source="post", key=key, text=text, channel="post", platform_id="home")
        asyncio.run(store.accept(incoming, default_agent="assistant", message_bytes=1000))
    finally:
        store.close()
    office.start()


def test_a_section_that_a_channel_does_not_take(post: Post) -> None:
    post.settings(folders=1)
    with pytest.raises(
        AssertionError, match=r"unknown key of \[channels.post\] 'folders', the nearest name is 'folder'"
    ):
        post.open()


def test_clients_fetch_and_acknowledge(make_office: Callable[..., OfficeProcess], shell: Shell) -> None:
    office = make_office()
    office.start()
    ask = office.door.ask
    ask("message", text="!say one", conversation="shop", sender="till", message_id="api_1")
    with pytest.raises(Duplicate):
        ask("message", text="!say one", conversation="shop", sender="till", message_id="api_1")
    ask("message", text="!say two", conversation="shop", sender="till")
    office.until(ended("pending", "pending"))

    def pending(**more: Any) -> list[str]:
        return [row["text"] for row in ask("responses_pending", channel="api", **more)["responses"]]

    assert pending() == ["one", "two"]
    # unacknowledged, they come again, also after a crash
    office.kill()
    office.start()
    assert pending(limit=1) == ["one"]
    first = ask("responses_pending", channel="api")["responses"][0]
    assert (first["agent"], first["originalText"], first["messageId"]) == ("assistant", "!say one", "api_1")
    assert ask("response_ack", id=first["id"])["changed"] is True
    assert ask("response_ack", id=first["id"])["changed"] is False
    assert pending() == ["two"]
    office.kill()
    office.start()
    (second,) = ask("responses_pending", channel="api")["responses"]
    assert (second["text"], second["platformId"], second["sender"]) == ("two", "shop", "till")
    assert second["messageId"].startswith("api_")
    for said in (f"Answer {second['id']} is acknowledged.\n", f"Answer {second['id']} was acknowledged before.\n"):
        assert shell.run("responses", "ack", str(second["id"])).stdout == said
    assert pending() == []
    assert office.stop() == 0


def test_a_client_gets_a_long_answer_as_a_file_too(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(delivery__file_over=100)
    office.start()
    for text in (LONG, "short"):
        office.door.ask("message", text=f"!say {text}")
    office.until(ended("pending", "pending"))
    for _ in range(2):  # it is the same at every look
        long, short = office.door.ask("responses_pending", channel="api")["responses"]
        (file,) = long["files"]
        assert (long["text"], file["name"], short["files"]) == (LONG, "answer.md", [])
        assert (office.home.path / file["path"]).read_text() == LONG


@pytest.mark.parametrize(("settings", "command"), [("", False), ("[channels.api]\ncommands = true\n", True)])
def test_a_clients_slash_command_is_text_unless_it_is_allowed(
    office: OfficeProcess, settings: str, command: bool
) -> None:
    office.stop()
    office.home.settings_file.write_text(settings)
    id = office.door.ask("message", text="@assistant /compact")["messageId"]
    reader = office.door.reader()
    try:
        ((content,),) = reader._all("select content from messages where message_id = ?", (id,))
    finally:
        reader.close()
    assert (content is not None and json.loads(content).get("isCommand") is True) == command


def test_a_client_that_is_not_let_in(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office()
    office.home.prepare()
    office.home.settings_file.write_text("[channels.api]\nenabled = false\n")
    with pytest.raises(BadInput, match=r"The channel 'api' is switched off \(channels.api.enabled\)."):
        office.door.ask("message", text="hello")
    office.home.settings_file.unlink()
    with pytest.raises(BadInput, match="A conversation has a name"):
        office.door.ask("message", text="hello", conversation="")
    with pytest.raises(UnknownAgent):
        office.door.ask("message", text="hello", agent="nobody")


def test_what_would_reach_nobody_is_refused(make_office: Callable[..., OfficeProcess], shell: Shell) -> None:
    office = make_office()
    done = shell.run("send", "[@assistant:]", "--wait")
    assert (done.returncode, done.stderr) == (2, "manydesks: Nothing was sent to @assistant: the tag is empty.\n")
    # a command for the office is for nobody, and fine
    assert shell.run("send", "@assistant").returncode == 0
    assert office.door.reader()._all("select count(*) from arrivals") == [(1,)]


def test_a_file_that_an_answer_names_goes_along(post: Post) -> None:
    post.settings()
    office = post.open()
    workspace = office.home.workspace("assistant")
    (workspace / "report.txt").write_text("all is well")
    (workspace / "passwd").symlink_to("/etc/passwd")
    text = "!say here: [send_file: report.txt] and [send_file: passwd] and [send_file: ../x] and `[send_file: x]`"
    post.platform.write("letter_1", text)
    office.until(ended("acked"))
    said = " ".join(post.platform.texts())
    assert said.startswith("here: (file: report.txt) and (The file 'passwd' was not sent: 'passwd' is a symbolic link")
    assert "(The file '../x' was not sent: '..' is not allowed in a path; name the file from your workspace.)" in said
    assert "`[send_file: x]`" in said
    found = [letter["files"] for letter in post.platform.sent() if letter["files"]]
    assert found == [{"report.txt": "all is well"}]
    # what lay in the desk's outbox is gone; the office's own copy stays as long as the row that names it
    assert list(office.home.sessions.rglob("outbox/*/*")) == []
    (kept,) = office.home.files.glob("*/report.txt")
    assert kept.read_text() == "all is well"
