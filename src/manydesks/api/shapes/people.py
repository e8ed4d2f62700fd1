"""Agents and teams, and what is in their rooms and workspaces."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from manydesks.api.shapes.base import PRINTED, WHOLE, AgentName, Given, MaybeWord, Shown, Text, Version, Word

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
    """What is not given stays as it is."""

    name: Name
    provider: Word
    model: Annotated[MaybeWord | None, Field(description="Empty: the provider's own choice.")]
    workspace: Annotated[str | None, Field(description="It has its place and cannot be changed.")] = None
    sandbox: Annotated[MaybeWord | None, Field(description="Empty: as the settings say.")] = None
    options: Annotated[dict[str, Any] | None, Field(description="For the provider; all of them.")] = None
    concurrency: Annotated[int | None, Field(ge=1, le=64), WHOLE] = None
    budget: Annotated[
        BudgetGiven | None, Field(description="All of its caps; `{}`: those that the settings have for every agent.")
    ] = None
    reaches: Annotated[list[AgentName] | None, Field(max_length=1000)] = None
    system_prompt: Annotated[str | None, Field(alias="system_prompt", max_length=1_000_000)] = None
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
    name: Name
    agents: Annotated[list[AgentName], Field(max_length=1000)]
    leader_agent: Annotated[AgentName, Field(alias="leader_agent")]
    version: Version = None


class TeamChanged(Changed):
    team: Team


class Prompt(Shown):
    ok: bool = True
    content: str
    path: str = Field(description="Relative to the office's home.")
    version: str


class PromptGiven(Given):
    content: Annotated[str, Field(pattern=r"^[^\x00]*$")]
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
