"""What the model is told: who it is, from its workspace, and the batch of messages."""

from __future__ import annotations

from manydesks.domain.clock import Clock
from manydesks.runner.instructions import instructions
from manydesks.runner.prompt import Reader, prompts
from manydesks.runner.providers.base import Station, Turn
from manydesks.runner.providers.http_api.files import Files
from manydesks.runner.providers.http_api.talk import Entry, Words


class Briefing:
    """Its verbs block: they read the workspace and the inbox."""

    def __init__(self, station: Station, files: Files, *, takes: frozenset[str], clock: Clock) -> None:
        self._station = station
        self._files = files
        self._clock = clock
        self._reader = Reader(agent=station.agent, inbox=station.inbox, takes=takes)

    def system(self) -> str:
        station = self._station
        return instructions(station.workspace, agent=station.agent, name=station.name).text

    def batch(self, turn: Turn) -> Entry:
        """Raises `OSError` if a file that goes along cannot be kept."""
        # one prompt: there is no slash command that an API would carry out
        (prompt,) = prompts(turn.messages, reader=self._reader, now=self._clock.now())
        return Entry(role="user", parts=(Words(text=prompt.text), *map(self._files.keep, prompt.files)))
