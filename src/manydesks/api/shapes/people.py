"""Agents and teams, and what is in their rooms and workspaces."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from manydesks.api.shapes.base import PRINTED, WHOLE, AgentName, Given, MaybeWord, Shown, Text, Version, Word

Name = Annotated[str, Field(min_length=1, max_length=80, pattern=PRINTED, description="One line that can be printed.")]


class Agent(Shown):
    id: str
    name: str
    provider: str
    model: str | None
    workspace: str
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
            f"{value:f} usd/day" if name == "usd" else f"{value} {name}/day"
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
    content: str
    path: str = Field(description="Relative to the office's home.")
    version: str


class PromptGiven(Given):
    content: Annotated[str, Field(pattern=r"^[^\x00]*$")]
    version: Version = None


class WorkspaceFile(Shown):
    name: str
    bytes: int
    modified_at: int
    content: str | None = Field(description="None: it is no text, or too long to be shown.")


class Skill(Shown):
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


class PostGiven(Given):
    message: Text
    sender: Word = "API"


class Posted(Shown):
    ok: bool = True
    id: int
    message_id: str
