"""What the office and its desks say of themselves, and what an agent did in a run."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from manydesks.api.office import Office
from manydesks.api.shapes.base import Id, Limit, errors
from manydesks.api.shapes.views import Logs, Step
from manydesks.domain.errors import BadInput, MailboxRefused, UnknownRun, WrongState
from manydesks.domain.ids import PUBLIC
from manydesks.office.logchoice import LogChoice
from manydesks.office.tapes import tape_of
from manydesks.office.upstreams import known_secrets
from manydesks.settings.secrets import mask_texts
from manydesks.store.reader import Reader

Of = Annotated[
    str | None,
    Query(
        max_length=128,
        pattern=rf"^(?:{PUBLIC.pattern})$",
        description="An agent, a channel, a run, or a message, which stands for its last run. Without: the office's.",
    ),
]


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["logs"])

    @router.get("/api/logs", response_model=Logs, summary="The last lines of a log")
    async def logs(of: Of = None, limit: Limit = 100) -> dict[str, Any]:
        """Of an agent: what is printed at its desks, and the office's lines that name it. Secrets are masked."""
        choice = LogChoice(office.home, of)

        def look(reader: Reader) -> dict[str, Any]:
            choice.find(reader)
            found = choice.last(reader, limit)
            entries = [{"source": line.source, "at": line.at, "text": line.text} for line in found]
            return {"lines": [line.text for line in found], "entries": entries}

        return await office.read(look)

    @router.get(
        "/api/runs/{id}/export",
        response_model=list[Step],
        responses=errors(404, 409),
        summary="What an agent did in a run, step by step",
    )
    async def export(id: Id) -> list[dict[str, Any]]:
        """By the id of a run, or of a message, which stands for its last run. The provider `rehearsal` plays it back,
        written as one JSON object a line."""

        def look(reader: Reader) -> list[dict[str, Any]]:
            lines = tape_of(office.home, reader, id)
            # a desk has no key, but its agent may have been told one
            shown: list[dict[str, Any]] = mask_texts(lines, known_secrets(office.home))
            return shown

        try:
            return await office.read(look)
        except UnknownRun:
            raise
        except BadInput as error:
            raise WrongState(str(error)) from None  # there is such a run, and nothing of it is left
        except MailboxRefused:
            raise WrongState(f"The files that the desk wrote in the run '{id}' cannot be read.") from None

    return router
