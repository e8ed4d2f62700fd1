"""Messages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manydesks.api.shapes.base import (
    WHOLE,
    AgentName,
    ClientId,
    File,
    FileGiven,
    FilePath,
    Given,
    MaybeWord,
    Shown,
    Text,
    Word,
)


class MessageGiven(Given):
    message: Text
    agent: Annotated[AgentName | None, Field(description="Who gets it as it is; else addresses in the text count.")] = (
        None
    )
    sender: Annotated[Word, Field(description="Who says it.")] = "API"
    sender_id: Annotated[
        MaybeWord, Field(description="Who that is to the client: its conversation, whose answers keep their order.")
    ] = ""
    channel: Annotated[
        AgentName, Field(description="`api`, or a name of the client's own for the way it is to people.")
    ] = "api"
    message_id: Annotated[
        ClientId | None, Field(description="The client's own; one that is known already is refused with 409.")
    ] = None
    files: Annotated[list[FileGiven | FilePath], Field(max_length=10, default_factory=list)]
    priority: Annotated[int, Field(ge=-100, le=100, description="Between agents' lanes, the higher first."), WHOLE] = 0
    not_before: Annotated[int | None, Field(ge=0, lt=2**53, description="Nobody begins before, ms UTC."), WHOLE] = None


class Stored(Shown):
    message_id: str
    agent: str
    status: str


class Accepted(Shown):
    ok: bool = True
    message_id: str = Field(description="That of the first; the client's own if it gave one.")
    trace_id: str
    messages: list[Stored] = Field(description="One for each agent that gets it.")
    notices: list[str] = Field(description="Sentences for the sender.")


class Answer(Shown):
    id: int
    message: str
    agent: str | None
    status: str
    operation: str
    created_at: int
    files: list[File]


class Tool(Shown):
    tool: str
    ok: bool
    duration_ms: int | None


class MessageRun(Shown):
    id: str
    attempt: int
    outcome: str | None
    reason: str | None
    started_at: int
    duration_ms: int | None
    input_tokens: int | None = Field(description="Of the whole run, whoever asks.")
    output_tokens: int | None
    cost_usd: float | None
    message: str = Field(description="The first of the messages that it was about.")
    messages: int = Field(description="How many those were.")
    tools: list[Tool]


class Before(Shown):
    message_id: str
    status: str
    sender: str


class Part(Shown):
    """One of the answers that a chain or a join waits for."""

    message_id: str
    agent: str | None
    status: str
    reason: str | None = None


class Wait(Shown):
    kind: str
    status: str
    until: int | None
    parts: list[Part]


class Message(Shown):
    message_id: str
    trace_id: str
    status: str
    attempts: int = Field(description="Runs begun.")
    agent: str
    from_agent: str | None
    parent: str | None
    channel: str
    sender: str
    sender_id: str
    message: str
    priority: int
    created_at: int
    updated_at: int
    last_error: str | None
    hold_reason: str | None
    not_before: int | None = Field(description="Nobody begins before, ms UTC.")
    agent_paused: bool
    before: int = Field(description="How many are before it in its lane.")
    waits_for: list[Before] = Field(description="The first of them.")
    wait: Wait | None = Field(description="The answers that it waits for, or has waited for.")
    runs: list[MessageRun]
    files: list[File]
    responses: list[Answer] = Field(description="Also the run's answer to others, if it was for this one too.")


class ForgetGiven(Given):
    trace: bool = Field(default=False, description="All that followed from the same arrival.")
    reset: bool = Field(default=False, description="The agents who had it begin anew.")


class Forgotten(Shown):
    ok: bool = True
    messages: list[str]
    texts: int
    left: str | None = Field(description="What it could not reach, in words.")
