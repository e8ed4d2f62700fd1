"""Channels: what each one promises the office, and what the office promises each one."""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.channels.base import Channel, DeliveryFailed, Descriptor, Receipt
from manydesks.channels.console import BACKLOG, Console, Screen
from manydesks.channels.registry import Channels
from manydesks.domain.attachment import Attachment
from manydesks.testing.channels import OPERATIONS, TestLine, complaints, parcel
from manydesks.testing.post import CHANNEL as POST

# what every channel promises


def members(folder: Path) -> dict[str, tuple[Descriptor, TestLine]]:
    """Every channel there is, each with a line, and the settings that it cannot do without."""
    needed = {"post": {"folder": str(folder)}}
    found = {name: Channels().get(name) for name in Channels().names()} | {"post": POST}
    return {
        name: (channel, TestLine(channel.section(**needed.get(name, {})), folder=folder))
        for name, channel in found.items()
    }


NAMES = [*Channels().names(), "post"]
#: those that send by themselves
SENDERS = [name for name in NAMES if name == "post" or not Channels().get(name).fetched]


@pytest.fixture(params=SENDERS)
async def channel(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Channel]:
    described, line = members(tmp_path)[request.param]
    made = described.load(line)
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize("name", NAMES)
def test_its_descriptor_is_sound(name: str, tmp_path: Path) -> None:
    channel, _ = members(tmp_path)[name]
    assert channel.name == name
    assert complaints(channel) == []


@pytest.mark.parametrize("name", NAMES)
async def test_it_may_be_started_and_stopped_again_and_again(name: str, tmp_path: Path) -> None:
    channel, line = members(tmp_path)[name]
    for _ in range(3):
        made = channel.load(line)
        await made.start()
        await made.stop()
        await made.stop()


async def test_each_parcel_has_a_receipt_of_its_own(channel: Channel) -> None:
    receipts = [await channel.send(parcel(id)) for id in range(1, 6)]
    assert all(isinstance(receipt, Receipt) and receipt.id for receipt in receipts)
    assert len({receipt.id for receipt in receipts}) == 5


async def test_it_may_be_asked_again_for_the_same_parcel(channel: Channel) -> None:
    assert (await channel.send(parcel(attempt=1))).id
    assert (await channel.send(parcel(attempt=2))).id


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_it_takes_whatever_an_agent_can_do(channel: Channel, operation: str) -> None:
    assert (await channel.send(parcel(operation=operation, **OPERATIONS[operation]))).id


async def test_it_takes_a_file(channel: Channel, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tea")
    file = Attachment(name="a.txt", bytes=3, sha256="ab", path="a.txt")
    assert (await channel.send(parcel(text="", files=(file,)))).id


@pytest.mark.parametrize("name", SENDERS)
@given(text=st.text(max_size=200), sender=st.text(max_size=20), agent=st.none() | st.just("assistant"))
def test_it_takes_whatever_an_agent_says(name: str, text: str, sender: str, agent: str | None) -> None:
    async def send() -> Receipt:
        with tempfile.TemporaryDirectory() as folder:
            described, line = members(Path(folder))[name]
            made = described.load(line)
            await made.start()
            try:
                return await made.send(parcel(text=text, sender=sender, agent=agent))
            finally:
                await made.stop()

    assert asyncio.run(send()).id


async def test_what_is_fetched_is_not_sent(tmp_path: Path) -> None:
    channel, line = members(tmp_path)["api"]
    with pytest.raises(DeliveryFailed):
        await channel.load(line).send(parcel())


# the console


async def test_the_console_says_who_answers_whom() -> None:
    shown: list[str] = []
    await Console(show=shown.append).send(parcel(text="one\ntwo"))
    assert shown == ["assistant → ada: one\ntwo"]


@pytest.mark.parametrize(
    ("operation", "line"),
    [
        ("message", "[file] a.txt (1 byte): files/ab/a.txt"),
        ("edit", "[edited] hello"),
        ("reaction", "[reacted] 👍"),
        ("card", "[card] hello"),
        ("ask_question", "[question] hello\n(to answer: manydesks answer question_1 …)"),
    ],
)
async def test_the_console_says_what_it_shows(operation: str, line: str) -> None:
    shown: list[str] = []
    files = (Attachment(name="a.txt", bytes=1, sha256="ab", path="files/ab/a.txt"),)
    more = {"text": "", "files": files} if operation == "message" else {}
    await Console(show=shown.append).send(parcel(operation=operation, **{**OPERATIONS[operation], **more}))
    assert shown == [f"assistant → ada: {line}"]


@given(text=st.text(max_size=100), sender=st.text(max_size=20))
def test_nothing_that_the_console_shows_can_steer_a_terminal(text: str, sender: str) -> None:
    shown: list[str] = []
    asyncio.run(Console(show=shown.append).send(parcel(text=text, sender=sender)))
    assert all(character.isprintable() or character in "\n\t" for character in shown[0])


class ClosedTerminal(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


async def test_an_answer_is_delivered_when_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", ClosedTerminal())
    screen = Screen()
    assert (await Console(screen.show).send(parcel())).id == "console:1"
    assert (await Console(screen.show).send(parcel(2))).id == "console:2"
    screen.close(10)


class StoppedTerminal(io.StringIO):
    """Ctrl-S: whoever prints waits until somebody presses Ctrl-Q."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def write(self, text: str) -> int:
        self.goes_on.wait(60)
        return super().write(text)


async def test_a_terminal_that_stands_still_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StoppedTerminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    screen = Screen()
    console = Console(screen.show)
    for number in range(BACKLOG + 50):
        assert (await console.send(parcel(number, text=f"line {number}"))).id == f"console:{number}"
    assert terminal.getvalue() == ""
    terminal.goes_on.set()
    screen.close(10)
    assert not screen._thread.is_alive()  # told that it is over, though its queue was full
    assert "line 0\n" in terminal.getvalue()


async def test_a_log_keeps_no_texts() -> None:
    shown: list[str] = []
    await Console(shown.append, texts=False).send(parcel(text="a secret"))
    assert "secret" not in shown[0]
    assert "8 characters" in shown[0]


async def test_a_notice_of_the_office_itself_is_about_nothing() -> None:
    shown: list[str] = []
    of_itself = replace(parcel(text="a budget is used up", sender="ada"), agent=None, message_id=None)
    await Console(shown.append, texts=False).send(replace(of_itself, operation="notice"))
    assert shown == ["the office → ada: notice (19 characters)"]


def test_lines_that_are_kept_begin_with_their_time(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(lambda: "2026-01-01 00:00:00,000")
    screen.show("The office is open.")
    screen.close(10)
    assert capsys.readouterr().out == "2026-01-01 00:00:00,000 The office is open.\n"


async def test_a_terminal_that_cannot_write_a_character_still_gets_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    screen = Screen()
    assert (await Console(screen.show).send(parcel(text="größer"))).id == "console:1"
    screen.close(10)
    assert b"gr" in raw.getvalue()
