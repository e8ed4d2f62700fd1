"""Answers of people on their way to the tool that waits for them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from manydesks.domain.mail import Content

#: answers that nobody has asked for yet: the word may come before the tool has begun to wait
KEPT = 100


class Answers:
    """What the host says with the word `answer`, by the question's id. For one event loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Content] = OrderedDict()
        self._changed = asyncio.Event()
        self._waiting = 0
        #: set while a tool waits
        self.wanted = asyncio.Event()

    def say(self, data: Content) -> None:
        """The host's word; the first answer to a question counts."""
        id = data.get("questionId")
        if isinstance(id, str) and id not in self._known:
            self._known[id] = data
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
            self._changed.set()

    async def wait(self, id: str) -> Content:
        """The answer to a question, as soon as it is there; whoever asks sets the time limit."""
        self._waiting += 1
        self.wanted.set()
        try:
            while id not in self._known:
                self._changed.clear()
                await self._changed.wait()
            return self._known.pop(id)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.wanted.clear()
