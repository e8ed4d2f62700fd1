"""Messages: handed in, looked at until they have ended, cancelled, forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from manydesks.api.answer import answered
from manydesks.api.files import kept
from manydesks.api.office import Office
from manydesks.api.shapes.base import DIGITS, NOTHING, Id, Nothing, Ok, errors
from manydesks.api.shapes.messages import Accepted, ForgetGiven, Forgotten, Message, MessageGiven
from manydesks.domain.errors import BadInput, UnknownAgent, UnknownMessage
from manydesks.domain.ids import new_id
from manydesks.store.reader import Reader

#: a long poll that takes longer is asked again
MOST_WAIT_SECONDS = 60
#: the message itself, and nothing around it
JUST_IT = ForgetGiven()
ENDED = frozenset({"completed", "dead", "cancelled"})
#: a response that nobody is to see any more
WITHDRAWN = "withdrawn"


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["messages"])

    @router.post("/api/message", response_model=Accepted, responses=errors(409, 413, 415), summary="Send a message")
    async def send(given: MessageGiven, request: Request) -> Response:
        """Stored, durably, when this answers. What becomes of it: `GET /api/message/{id}`, or the events."""
        check_size(office, given.message)
        message_id = given.message_id or new_id("api")
        try:
            done = await office.act(
                "message",
                text=given.message,
                agent=given.agent,
                sender=given.sender,
                sender_id=given.sender_id,
                conversation=given.sender_id or given.sender,
                channel=given.channel,
                message_id=message_id,
                priority=given.priority,
                not_before=given.not_before,
                files=await kept(office, given.files, request),
            )
        except UnknownAgent as error:
            raise BadInput(str(error)) from None  # a field of the body, not what the address names
        return answered({"ok": True, **done})

    @router.get(
        "/api/message/{id}",
        response_model=Message,
        responses=errors(404),
        summary="How a message stands, and its answers",
    )
    async def look(
        id: Id,
        request: Request,
        wait: Annotated[
            float, Query(ge=0, le=MOST_WAIT_SECONDS, description="So many seconds until it has ended, at most."), DIGITS
        ] = 0,
    ) -> dict[str, Any]:
        if not wait:
            return await office.read(lambda reader: shown(reader, id))
        async with office.hub.about(id) as told, hanging_up(request, told) as gone:
            deadline = asyncio.get_running_loop().time() + wait
            while True:
                told.clear()
                found = await office.read(lambda reader: shown(reader, id))
                remaining = deadline - asyncio.get_running_loop().time()
                # nobody hears the answer to one that has left; it is not waited for either
                if found["status"] in ENDED or remaining <= 0 or office.hub.closed or gone.is_set():
                    return found
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(remaining):
                        await told.wait()

    @router.post(
        "/api/message/{id}/cancel", response_model=Ok, responses=errors(404, 409, 413, 415), summary="Cancel a message"
    )
    async def cancel(id: Id, given: Nothing = NOTHING) -> dict[str, Any]:
        """It shall not go on: what waits never begins, what runs is ended with its whole process tree."""
        await office.read(lambda reader: shown(reader, id))
        await office.act("cancel", id=id)
        return {"ok": True}

    @router.post(
        "/api/message/{id}/forget",
        response_model=Forgotten,
        responses=errors(404, 409, 413, 415),
        summary="Forget a message",
    )
    async def forget(id: Id, given: ForgetGiven = JUST_IT) -> dict[str, Any]:
        """Its text, and that of the answers to it, wherever the office has them. Only of one that has ended."""
        return {"ok": True, **await office.act("forget", id=id, trace=given.trace, reset=given.reset)}

    return router


@contextlib.asynccontextmanager
async def hanging_up(request: Request, told: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client hangs up; `told` is set with it, for whoever waits for that."""
    gone = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()
        told.set()

    watching = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()


def shown(reader: Reader, id: str) -> dict[str, Any]:
    """A message as clients have it. Raises `UnknownMessage`."""
    found = reader.letter(id)
    if found is None:
        raise UnknownMessage(message=id)
    together = found["answeredWith"]
    responses = [*found["responses"], *([together["response"]] if together else [])]
    return {
        **found,
        **reader.exchange(id),
        "message": found["text"],
        "responses": [
            {**response, "message": response["text"]} for response in responses if response["status"] != WITHDRAWN
        ],
    }


def check_size(office: Office, text: str) -> None:
    most = office.settings.limits.message_bytes
    if len(text) > most or len(text.encode("utf-8", "replace")) > most:
        raise HTTPException(413, f"The message is too long; at most {most} bytes are allowed (limits.message_bytes).")
