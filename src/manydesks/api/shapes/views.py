"""What happened and how it stands: events, traces, sessions, usage, questions, figures, the office itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from manydesks.api.shapes.base import Given, Shown, Text, Word


class Event(Shown):
    seq: int
    kind: str
    at: int
    trace_id: str | None
    parent: str | None
    message_id: str | None
    run_id: str | None
    session_id: str | None
    agent: str | None
    data: dict[str, Any]
    type: str = Field(description="As `kind`.")
    timestamp: int = Field(description="As `at`.")
    agent_id: str | None = Field(description="As `agent`.")
    channel: str | None = Field(default=None, description="This and what follows: as in `data`, where it is there.")
    sender: str | None = None
    from_agent: str | None = None
    to_agent: str | None = None
    team_id: str | None = None


class Events(Shown):
    events: list[Event]
    head: int = Field(description="The ledger's last event.")


class Span(Shown):
    id: str
    parent: str | None
    kind: Literal["message", "queue", "run", "tool", "delivery"]
    name: str
    start: int
    end: int | None
    agent: str | None
    status: str | None
    message_id: str | None = None
    from_agent: str | None = None
    detail: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Trace(Shown):
    trace_id: str
    spans: list[Span]


class Session(Shown):
    number: int
    id: str
    agent: str
    conversation: str
    thread: str
    generation: int
    mode: str
    status: str
    last_active: int
    created_at: int


class Run(Shown):
    id: str
    message_id: str
    attempt: int
    outcome: str | None
    reason: str | None
    started_at: int
    ended_at: int | None
    provider: str
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


class OneSession(Session):
    runs: list[Run] = Field(description="The last of them, newest first.")


class UsageSums(Shown):
    runs: int
    failed: int
    running: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost_usd: float | None = Field(description="None: not known, which is not 0.")
    unknown_cost: int = Field(description="Runs whose cost nobody knows.")


class UsageRow(UsageSums):
    agent: str | None = None
    model: str | None = None
    day: str | None = None


class Cap(Shown):
    scope: str
    agent: str | None
    day: str
    unit: str
    cap: float
    spent: float
    reserved: float
    left: float


class Usage(Shown):
    by: str
    since: str | None
    rows: list[UsageRow]
    total: UsageSums
    today: str
    time_zone: str
    caps: list[Cap]


class QuestionOption(Shown):
    label: str
    value: str


class Question(Shown):
    id: str
    agent: str | None
    message_id: str | None
    title: str | None
    question: str
    options: list[QuestionOption]
    asked_at: int
    expires_at: int


class AnswerGiven(Given):
    option: Annotated[Text, Field(description="An option's value, label or number, or own words.")]
    own_words: Annotated[bool, Field(description="Also what looks like an option is text.")] = False
    by: Word = "API"


class Insights(Shown):
    table: str
    columns: list[str]
    rows: list[dict[str, Any]]
    more: bool
    seq: int = Field(description="They know every event up to this one.")
    begins_at: int = Field(description="And none before this one; above 1: an earlier lake was lost.")
    built_at: int
    behind: int = Field(description="Events that they do not know.")
    ahead: int = Field(
        description="Events that they know and the ledger has not: above 0, it was put back, or they are another"
        " office's."
    )


class Pause(Shown):
    ok: bool = True
    changed: bool = Field(description="`false`: it was so already.")


class Store(Shown):
    head: int
    first: int
    archived: int
    bytes: int
    durability: str
    paused: bool


class Status(Shown):
    ok: bool = True
    version: str
    uptime: int = Field(description="Milliseconds.")
    store: Store
    channels: dict[str, Any] | None
    runners: dict[str, int] | None
    pipeline: dict[str, Any] | None
    heartbeat: int | None = Field(description="When the office was last seen to turn, ms UTC.")
    settings: dict[str, Any] | None
    queue: dict[str, int]


class Plugins(Shown):
    plugins: list[dict[str, Any]] = Field(description="As `manydesks hook list --json` has them.")


class LogEntry(Shown):
    source: str = Field(description="`office`, or the session of a desk.")
    at: str = Field(description="When it was written, as the line says, or the one before it.")
    text: str


class Logs(Shown):
    lines: list[str] = Field(description="Oldest first.")
    entries: list[LogEntry] = Field(description="The same, each with where it is from.")


class Step(Shown):
    """What an agent did, as the provider `rehearsal` plays it back; what else it holds depends on its type."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`text`, `tool_call`, `tool_result`, `usage`, `answer` or `error`.")


class Finding(Shown):
    what: str
    level: Literal["ok", "note", "bad"]
    says: str
    advice: str = Field(description="What to do; empty: nothing.")


class Checkup(Shown):
    ok: bool = Field(description="All that is set up can work.")
    findings: list[Finding]
