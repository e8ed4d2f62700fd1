"""Responses."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from manydesks.api.shapes.base import AgentName, File, FileGiven, FilePath, Given, MaybeWord, Shown, Text, Word


class Response(Shown):
    id: int
    status: str
    channel: str
    sender: str
    sender_id: str
    message: str
    original_message: str | None
    timestamp: int
    message_id: str | None
    trace_id: str | None
    agent: str | None
    operation: str
    files: list[str] = Field(description="Where they are on the office's machine.")
    attachments: list[File] = Field(description="The same, with what is in them.")
    metadata: dict[str, Any]


class OneResponse(Response):
    attempts: int
    reason: str | None = Field(description="Why it is not out.")
    instance: str = Field(description="Which line of the channel.")
    platform_id: str = Field(description="The place on the channel.")
    receipts: list[Any] = Field(description="Of the pieces that are out.")
    created_at: int
    updated_at: int
    acked_at: int | None


class ResponseGiven(Given):
    """Something that nobody asked for."""

    channel: AgentName
    sender: Annotated[Word, Field(description="To whom.")]
    message: Text
    sender_id: Annotated[MaybeWord, Field(description="Who that is on the channel.")] = ""
    agent: Annotated[AgentName | None, Field(description="In whose name.")] = None
    files: Annotated[list[FileGiven | FilePath], Field(max_length=10, default_factory=list)]


class Said(Shown):
    ok: bool = True
    id: int
    message_id: str
