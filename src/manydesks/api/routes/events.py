"""Events, as a list and as they happen; traces."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from manydesks.api.follower import Wanted
from manydesks.api.history import HEADER, check_history, history_of
from manydesks.api.office import Office
from manydesks.api.rendering import PROGRESS, shown
from manydesks.api.shapes.base import DIGITS, EVENT_NUMBER, HISTORY, MOST, PUBLIC_ID, Id, Limit, OfAgent, errors
from manydesks.api.shapes.views import Events, Trace
from manydesks.api.spans import spans
from manydesks.api.stream import Stream, begin
from manydesks.domain.errors import BadInput, LedgerPruned, UnknownTrace
from manydesks.domain.event import KINDS
from manydesks.store.reader import Reader

#: the document says which kinds there are; whoever names another is told so, in better words
_KIND = f"(?:{'|'.join((*KINDS, PROGRESS))})"
Types = Annotated[
    str | None,
    Query(
        max_length=4000,
        description="Only these kinds, with commas.",
        json_schema_extra={"pattern": f"^{_KIND}(?:,{_KIND})*$"},
    ),
]
OfTrace = Annotated[str | None, Query(max_length=128, pattern=PUBLIC_ID, description="Only this trace.")]
From = Annotated[
    int | None,
    Query(ge=0, le=MOST, description="Only what has a higher number; else from the oldest that is kept."),
    DIGITS,
]
Resume = Annotated[int | None, Query(ge=0, le=MOST, description="Begin behind this event."), DIGITS]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", pattern=EVENT_NUMBER, description="The same; it goes before `after`.")
]
History = Annotated[
    str | None,
    Query(
        pattern=HISTORY,
        description=f"The history that was followed so far, as `{HEADER}` has named it: 410 if the office was put back "
        "from a backup, and goes on with another one since before this place.",
    ),
]
#: of both routes' answers
NAMED = {HEADER: {"description": "Which history the ledger tells; see `history`.", "schema": {"type": "string"}}}
STREAMED = f"""\
Server-sent events: `id` is the event's `seq`, `event` its kind, `data` the event as JSON. `{PROGRESS}` events have no
`id`, are not kept, and tell what a run is saying just now; their `data` has `type` (`{PROGRESS}`), `agent` and
`agentId` (both the agent), `sessionId`, `runId`, `messageId` and `traceId` (of the message that the run is about
first), `text` (the end of what the run has said so far, each time anew) and `tool` (the one in use, or null)."""
#: a trace that is longer is shown without the rest of its tools
MOST_TOOLS = 10_000


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["events"])

    @router.get(
        "/api/events",
        response_model=Events,
        response_model_exclude_unset=True,
        responses={200: {"headers": NAMED}, **errors(410)},
        summary="What happened, from the ledger",
    )
    async def listed(
        response: Response,
        after: From = None,
        limit: Limit = 100,
        types: Types = None,
        trace: OfTrace = None,
        history: History = None,
    ) -> dict[str, Any]:
        kinds = _kinds(types, PROGRESS)

        def look(reader: Reader) -> dict[str, Any]:
            if history is not None and after is not None:
                check_history(reader, history, after)
            response.headers[HEADER] = history_of(reader)
            head, wanted = reader.head(), sorted(kinds) if kinds is not None else None
            behind = reader.first() - 1 if after is None else after
            try:
                events = reader.events(behind, limit, wanted, trace)
            except LedgerPruned as error:
                if after is not None:
                    raise
                # between the two looks
                events = reader.events(int(str(error.details["first"])) - 1, limit, wanted, trace)
            return {"events": [shown(event) for event in events], "head": head}

        return await office.read(look)

    @router.get(
        "/api/events/stream",
        responses={
            200: {
                "description": STREAMED,
                "headers": NAMED,
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **errors(410),
        },
        response_class=Response,
        response_model=None,
        summary="What happens, as it happens",
    )
    async def stream(
        after: Resume = None,
        types: Types = None,
        agent: OfAgent = None,
        trace: OfTrace = None,
        history: History = None,
        last_event_id: LastEventId = None,
    ) -> Stream:
        """From now on, or from behind an event; resumed without a gap or a repetition, also after the office was
        closed and opened again. Whoever is sent nothing for 15 seconds gets a comment, and an `id` alone that says
        how far it is."""
        wanted = Wanted(kinds=_kinds(types, PROGRESS), agent=agent, trace=trace)
        follower = await begin(office.hub, last=last_event_id, after=after, wanted=wanted, followed=history)
        # looked at last: nobody else comes between this and its first turn
        if len(office.hub.followers) >= office.settings.api.readers:
            raise HTTPException(503, f"{office.settings.api.readers} clients follow the events already (api.readers).")
        return Stream(office.hub, follower, everybody=lambda: office.settings.api.auth == "none")

    @router.get(
        "/api/traces/{id}", response_model=Trace, responses=errors(404), summary="All that followed from a message"
    )
    async def trace(id: Id) -> dict[str, Any]:
        """By the id of a trace, or of any message of it; as spans of time."""

        def look(reader: Reader) -> dict[str, Any]:
            found = reader.trace(id)
            if found is None:
                raise UnknownTrace(trace=id)
            kinds = ("tool_called", "tool_done")
            tools = reader.events(reader.first() - 1, MOST_TOOLS, kinds, found["traceId"])
            return {"traceId": found["traceId"], "spans": spans(found, tools)}

        return await office.read(look)

    return router


def _kinds(given: str | None, *more: str) -> frozenset[str] | None:
    if given is None:
        return None
    kinds = frozenset(given.split(","))
    if unknown := sorted(kinds - KINDS.keys() - set(more)):
        raise BadInput(f"There is no kind of event '{unknown[0][:60]}'.")
    return kinds
