"""One call with as much of the past as the model can hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from manydesks.runner.providers.http_api.counts import prompt_tokens
from manydesks.runner.providers.http_api.failure import CallFailed
from manydesks.runner.providers.http_api.files import Files
from manydesks.runner.providers.http_api.history import Past
from manydesks.runner.providers.http_api.line import Line
from manydesks.runner.providers.http_api.options import Options
from manydesks.runner.providers.http_api.shape import packed
from manydesks.runner.providers.http_api.talk import Entry, Words
from manydesks.runner.providers.http_api.trimming import DENSITY, Weight, corrected, text_weight, trim, weigh
from manydesks.runner.providers.http_api.wire import Ask, Reply, Wire
from manydesks.runner.tools.base import Tool

#: a tag that no message can produce: the formatting of messages escapes it
NOTE = "<host-notice>Earlier messages of this conversation are not shown here any more.</host-notice>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Brief:
    """What stays the same in all calls of a turn."""

    system: str
    tools: tuple[Tool, ...]

    def weight(self) -> Weight:
        schemas = "".join(tool.name + tool.description + packed(tool.schema()) for tool in self.tools)
        return text_weight(self.system) + text_weight(schemas)


class Context:
    """Remembers what the API has shown about its tokens, from call to call."""

    def __init__(self, line: Line, wire: Wire, files: Files, *, model: str, options: Options) -> None:
        self._line = line
        self._wire = wire
        self._model = model
        self._options = options
        self._files = files
        self._takes = options.takes(wire)
        self._budget = options.budget
        self.density = DENSITY
        #: what was left of the past in the last call
        self.past = Past()

    async def close(self) -> None:
        await self._line.close()

    async def ask(self, past: Past, said: Sequence[Entry], brief: Brief) -> AsyncGenerator[str | Reply, None]:
        """The words as they come, and the whole reply at the end. Raises `CallFailed`.

        An API that says that the prompt is too long is asked again with less of the past, as long as there is some.
        """
        fixed = brief.weight() + weigh(said)
        while True:
            kept = trim(past.exchanges, fixed=fixed, budget=self._budget, density=self.density)
            past = self.past = Past(exchanges=kept.exchanges, cut=past.cut or kept.dropped > 0)
            weight = sum((weigh(exchange.entries) for exchange in kept.exchanges), fixed)
            body = await asyncio.to_thread(self._body, past, said, brief)
            try:
                async with aclosing(self._line.ask(self._wire, body)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Reply):
                            self.density = corrected(self.density, weight, prompt_tokens(piece.usage))
                        yield piece
                return
            except CallFailed as failed:
                if not failed.too_long or not kept.exchanges:
                    raise
                self._budget = min(self._budget, weight.estimate(self.density)) // 2

    def _body(self, past: Past, said: Sequence[Entry], brief: Brief) -> bytes:
        entries = [entry for exchange in past.exchanges for entry in exchange.entries] + list(said)
        if past.cut:
            entries[0] = replace(entries[0], parts=(Words(text=NOTE), *entries[0].parts))
        files = self._files.contents(entries, self._takes)
        ask = Ask(
            model=self._model,
            system=brief.system,
            entries=entries,
            tools=brief.tools,
            max_tokens=self._options.max_tokens,
            cache=self._options.cache,
            extra=self._options.extra,
            load=files.get,
        )
        return packed(self._wire.body(ask)).encode(errors="replace")
