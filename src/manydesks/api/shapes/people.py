"""Agents and teams, and what is in their rooms and workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from manydesks.api.shapes.base import NO_ZERO, PRINTED, WHOLE, AgentName, Given, MaybeWord, Shown, Text, Version, Word
from manydesks.domain.errors import BadInput

Name = Annotated[str, Field(min_length=1, max_length=80, pattern=PRINTED, description="One line that can be printed.")]

AS_READ = "As it was read; it is not looked at."


class Agent(Shown):
    id: str
    name: str
    provider: str
    model: str | None
    workspace: str
    working_directory: str = Field(alias="working_directory", description="Its workspace, on the office's machine.")
    sandbox: str | None
    options: dict[str, Any]
    concurrency: int
    budget: dict[str, Any] | None
    reaches: list[str]
    teams: list[str]
    paused: bool
    pause_reason: str | None
    pending: int
    processing: int
    version: str


class BudgetGiven(Given):
    """Caps for a day; 0 is no cap."""

    usd: Annotated[float | None, Field(ge=0, le=1_000_000)] = None
    tokens: Annotated[int | None, Field(ge=0, le=1_000_000_000), WHOLE] = None
    runs: Annotated[int | None, Field(ge=0, le=1_000_000), WHOLE] = None

    def spelled(self) -> str:
        """As the act takes it."""
        parts = [
            # as it was given: cut to millionths, a cap that is too small to be one would become none at all
            f"{Decimal(repr(value)):f} usd/day" if name == "usd" else f"{value} {name}/day"
            for name, value in self
            if value is not None
        ]
        return ", ".join(parts)


class AgentGiven(Given):
    """What is not given stays as it is; `null` is the default again. A new one needs `name`, `provider`, `model`."""

    name: Annotated[Name, Field(default_factory=str, description="One line that can be printed; a new one needs it.")]
    provider: Annotated[Word, Field(default_factory=str, description="What drives it; a new one needs it.")]
    model: Annotated[
        MaybeWord | None,
        Field(description="A new one needs it; `null` or empty: the provider's own choice."),
    ] = None
    workspace: Annotated[str | None, Field(description="It has its place and cannot be changed.")] = None
    sandbox: Annotated[MaybeWord | None, Field(description="`null` or empty: as the settings say.")] = None
    options: Annotated[dict[str, Any] | None, Field(description="For the provider, all of them; `null`: none.")] = None
    concurrency: Annotated[int | None, Field(ge=1, le=64, description="`null`: 1."), WHOLE] = None
    budget: Annotated[
        BudgetGiven | None,
        Field(description="All of its caps; `null` or `{}`: those that the settings have for every agent."),
    ] = None
    reaches: Annotated[
        list[AgentName] | None,
        Field(max_length=1000, description="Whom it may address beyond its team mates; `null`: nobody."),
    ] = None
    system_prompt: Annotated[
        str | None,
        Field(
            alias="system_prompt",
            max_length=1_000_000,
            pattern=NO_ZERO,
            description="Its manual, whole; `null` leaves it as it is.",
        ),
    ] = None
    version: Version = None
    #: what `GET` shows and nobody changes here, so that what was read can be sent back
    id: Annotated[str | None, Field(description="As in the address.")] = None
    working_directory: Annotated[
        str | None, Field(alias="working_directory", description="As `workspace`; of another one there is a notice.")
    ] = None
    teams: Annotated[list[str] | None, Field(description=AS_READ)] = None
    paused: Annotated[bool | None, Field(description=AS_READ)] = None
    pause_reason: Annotated[str | None, Field(description=AS_READ)] = None
    pending: Annotated[int | None, Field(description=AS_READ), WHOLE] = None
    processing: Annotated[int | None, Field(description=AS_READ), WHOLE] = None


def check_needed(what: str, given: Given, fields: Sequence[str]) -> None:
    """Raises `BadInput` for a new one that lacks something; one that is there keeps what it has."""
    if missing := [f"'{field}'" for field in fields if field not in given.model_fields_set]:
        *most, last = missing
        names = f"{', '.join(most)} and {last}" if most else last
        raise BadInput(f"A new {what} needs {names}.")


class Changed(Shown):
    ok: bool = True
    version: str | None = None
    notices: list[str] = Field(default_factory=list)


class AgentChanged(Changed):
    agent: Agent


class Team(Shown):
    id: str
    name: str
    agents: list[str]
    leader_agent: str = Field(alias="leader_agent")
    version: str


class TeamGiven(Given):
    """What is not given stays as it is. A new one needs `name`, `agents` and `leader_agent`."""

    name: Annotated[Name, Field(default_factory=str, description="One line that can be printed; a new one needs it.")]
    agents: Annotated[
        list[AgentName],
        Field(max_length=1000, default_factory=list, description="Who is in it, all of them; a new one needs it."),
    ]
    leader_agent: Annotated[
        AgentName, Field(alias="leader_agent", default_factory=str, description="A new one needs it.")
    ]
    version: Version = None
    #: so that what was read can be sent back
    id: Annotated[str | None, Field(description="As in the address.")] = None


class TeamChanged(Changed):
    team: Team


class Prompt(Shown):
    ok: bool = True
    content: str
    path: str = Field(description="Relative to the office's home.")
    version: str


class PromptGiven(Given):
    content: Annotated[str, Field(pattern=NO_ZERO)]
    version: Version = None


class WorkspaceFile(Shown):
    name: str
    path: str = Field(description="Relative to the folder.")
    bytes: int
    modified_at: int
    content: str | None = Field(description="None: it is no text, or too long to be shown.")


class Memory(Shown):
    index: str = Field(description="What it keeps of it before its eyes: `memory/README.md`.")
    files: list[WorkspaceFile]
    memory_dir: str = Field(description="Relative to the office's home.")


class Skill(Shown):
    id: str = Field(description="Its folder.")
    name: str
    description: str | None
    path: str


class Said(Shown):
    id: int
    role: str
    channel: str
    sender: str
    message_id: str | None
    message: str
    created_at: int
    row_agent: str = Field(alias="agent_id")
    row_message: str | None = Field(alias="message_id")
    content: str = Field(description="As `message`.")
    row_created: int = Field(alias="created_at")


class SessionReset(Shown):
    session: str
    before: str
    generation: int
    moved: int


class Reset(Shown):
    ok: bool = True
    sessions: list[SessionReset]


class Post(Shown):
    id: int
    team_id: str
    from_agent: str | None
    sender: str | None
    message: str
    created_at: int
    row_team: str = Field(alias="team_id")
    row_from: str = Field(alias="from_agent", description="`user` for people.")
    row_created: int = Field(alias="created_at")


class PostGiven(Given):
    message: Text
    sender: Word = "API"


class Posted(Shown):
    ok: bool = True
    id: int
    message_id: str
