"""The queue, and what a person has to deal with in it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manydesks.api.shapes.base import AgentName, Given, Shown, Text


class QueueStatus(Shown):
    pending: int
    processing: int
    held: int
    completed: int
    dead: int
    cancelled: int
    incoming: int = Field(description="As `pending`.")
    outgoing: int = Field(description="Responses that are not delivered.")


class AgentQueue(Shown):
    agent: str
    pending: int
    processing: int
    held: int


class Processing(Shown):
    id: int
    message_id: str
    agent: str
    session_id: str
    run_id: str | None
    started_at: int | None
    run_ms: int | None
    alive: bool = Field(description="Whether somebody sits at the desk.")


class Held(Shown):
    id: int
    message_id: str
    trace_id: str
    agent: str
    channel: str
    sender: str
    sender_id: str
    message: str
    reason: str | None
    ref: str | None
    until: int | None
    detail: str | None
    created_at: int
    updated_at: int


class DeadData(Shown):
    channel: str
    sender: str
    sender_id: str
    message: str
    message_id: str
    agent: str


class Dead(Shown):
    id: int
    data: DeadData
    trace_id: str
    failed_reason: str | None
    attempts_made: int
    timestamp: int


class Listed(Shown):
    id: int
    message_id: str
    agent: str
    sender: str
    status: str
    attempts: int = Field(description="Runs begun.")
    reason: str | None
    message: str
    created_at: int
    updated_at: int


class CancelGiven(Given):
    agent: Annotated[AgentName | None, Field(description="Whose; null: everybody's.")]


class Cancelled(Shown):
    ok: bool = True
    cancelled: int
    stopped: int = Field(description="Runs that were told to end.")
    more: bool = Field(description="There is more: ask again.")


class Pruned(Shown):
    ok: bool = True
    events: int
    messages: int
    more: bool = Field(description="There is more: ask again.")


class RetryGiven(Given):
    message: Annotated[Text | None, Field(description="Another text for it.")] = None
