"""Forgetting: a message's text, wherever the office has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.office.acts.base import Act, Means, strings


class ForgettingActs:
    def __init__(self, means: Means) -> None:
        self._means = means

    def acts(self) -> Mapping[str, Act]:
        return {"forget": self.forget}

    async def forget(self, *, id: str, trace: bool = False, reset: bool = False) -> dict[str, Any]:
        """`trace`: all that followed from the same arrival; `reset`: the agents who had it begin anew."""
        from manydesks.office.forget import forget  # it brings sandboxes along, which no other act needs

        strings(id=id)
        if any(type(given) is not bool for given in (trace, reset)):
            raise BadInput("'trace' and 'reset' are true or false.")
        means = self._means
        done = await forget(means.store, means.home, id, whole_trace=trace, reset=reset, dismiss=means.dismiss)
        found = done.found
        return {
            "messages": list(found.messages),
            "alsoForgotten": list(found.sharing),
            "texts": done.erased,
            "files": list(found.files),
            "sessions": [session for _, session in found.places],
            "madeAnew": list(done.made_anew),
            "logs": list(done.logs),
            "reset": list(done.reset),
            "transcripts": list(done.transcripts),
            "mayQuote": list(found.around),
            "left": done.left,
        }
