"""A platform in a folder, and the channel to it: for tests of offices, and as an example of a channel in one file.

`[channels.post]` names the folder. What is put into `in/` as `<key>.json` (`text`, and if you like `place`, `sender`,
`thread`) is handed in; it goes when it is stored. What is sent is a line of `out.jsonl`. A file `down` closes the
platform. `faults.json` is a list of what goes wrong: each with `match` (a part of the text), `what` (a word of
`FAULTS`) and `times`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

from pydantic import Field

from manydesks.channels.base import ChannelDown, ChannelSection, DeliveryFailed, Descriptor, Line, Receipt
from manydesks.domain.envelope import Incoming, Parcel
from manydesks.domain.errors import BadInput, Duplicate
from manydesks.domain.failure import Failure, FailureClass

#: `busy` and `refused` fail for sure; the others leave it open whether it arrived: it did not, or it did
FAULTS = ("busy", "refused", "lost", "lost_after", "hang", "deaf", "die_before", "die_after")
POLL_SECONDS = 0.02


class PostSection(ChannelSection):
    """`[channels.post]`"""

    folder: str = Field(min_length=1, description="The platform's folder.")


class Platform:
    """The platform's side, for whoever tests: what to send in, what came out, what shall go wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir(parents=True, exist_ok=True)

    def write(self, key: str, text: str, **more: str) -> None:
        """A message of somebody; `place`, `sender`, `thread`."""
        part = self.folder / f"{key}.part"
        part.write_text(json.dumps({"text": text, **more}))
        part.rename(self.folder / "in" / f"{key}.json")

    def waiting(self) -> list[tuple[str, dict[str, Any]]]:
        """(key, message) of what nobody has taken yet."""
        return [(path.stem, json.loads(path.read_text())) for path in sorted((self.folder / "in").glob("*.json"))]

    def taken(self, key: str) -> None:
        (self.folder / "in" / f"{key}.json").unlink()

    def sent(self) -> list[dict[str, Any]]:
        """What has arrived, oldest first."""
        path = self.folder / "out.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def texts(self, place: str | None = None) -> list[str]:
        return [letter["text"] for letter in self.sent() if place in (None, letter["place"])]

    def fail(self, *faults: tuple[str, str, int]) -> None:
        """(match, what, times) each."""
        found = [{"match": match, "what": what, "times": times} for match, what, times in faults]
        self._write("faults.json", json.dumps(found))

    def close(self, reason: str = "the post office is closed") -> None:
        self._write("down", reason)

    def open(self) -> None:
        (self.folder / "down").unlink(missing_ok=True)

    def why_closed(self) -> str | None:
        try:
            return (self.folder / "down").read_text()
        except FileNotFoundError:
            return None

    def take_fault(self, text: str) -> str | None:
        """What goes wrong with this text now; it counts, whatever becomes of the process."""
        path = self.folder / "faults.json"
        faults: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        for fault in faults:
            if fault["match"] in text and fault["times"] > 0:
                fault["times"] -= 1
                self._write("faults.json", json.dumps(faults))
                return str(fault["what"])
        return None

    def arrive(self, letter: dict[str, Any]) -> int:
        """On the disk when this returns; the number of the letter."""
        with (self.folder / "out.jsonl").open("a") as out:
            out.write(json.dumps(letter) + "\n")
            out.flush()
            os.fsync(out.fileno())
        return len(self.sent())

    def _write(self, name: str, text: str) -> None:
        part = self.folder / f"{name}.part"
        part.write_text(text)
        part.replace(self.folder / name)


class Post:
    def __init__(self, line: Line) -> None:
        assert isinstance(line.section, PostSection)
        self._line = line
        self._platform = Platform(Path(line.section.folder))
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if (reason := self._platform.why_closed()) is not None:
            raise ChannelDown(reason)
        self._watch = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def send(self, parcel: Parcel) -> Receipt:
        what = self._platform.take_fault(parcel.text)
        match what:
            case "busy":
                raise DeliveryFailed(Failure(kind=FailureClass.TRANSIENT, reason="the postman is busy"))
            case "refused":
                raise DeliveryFailed(Failure(kind=FailureClass.PERMANENT, reason="moved away"))
            case "lost":
                raise OSError("the postman fell")
            case "die_before":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                await asyncio.Event().wait()
            case "deaf":
                while True:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()
        number = self._platform.arrive(
            {
                "key": parcel.key,
                "place": parcel.platform_id,
                "instance": parcel.instance,
                "agent": parcel.agent,
                "operation": parcel.operation,
                "text": parcel.text,
                "target": parcel.target,
                "files": {file.name: self._line.path(file).read_bytes().decode() for file in parcel.files},
            }
        )
        if what == "lost_after":
            raise OSError("the postman fell on his way back")
        if what == "die_after":
            os.kill(os.getpid(), signal.SIGKILL)
        return Receipt(id=f"letter-{number}")

    async def _look(self) -> None:
        while True:
            if (reason := self._platform.why_closed()) is not None:
                self._line.down(reason)
                return
            for key, said in self._platform.waiting():
                await self._hand_in(key, said)
            await asyncio.sleep(POLL_SECONDS)

    async def _hand_in(self, key: str, said: dict[str, Any]) -> None:
        incoming = Incoming(
            source="post",
            key=key,
            text=said["text"],
            channel="post",
            instance=self._line.instance,
            platform_id=said.get("place", "home"),
            conversation_kind="dm",
            thread=said.get("thread", ""),
            sender=said.get("sender", "ada"),
        )
        # what was stored before is as good as stored now, and what is refused would be refused again
        with contextlib.suppress(Duplicate, BadInput):
            await self._line.hand_in(incoming)
        self._platform.taken(key)


CHANNEL = Descriptor(
    name="post",
    load=Post,
    section=PostSection,
    instances=True,
    longest=200,
    files="apart",
    long_as_file=True,
    edits=True,
    summary="a platform in a folder, for tests",
)
