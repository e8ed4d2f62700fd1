"""One turn of a script: what the model says next, and when it does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from manydesks.domain.errors import BadInput
from manydesks.testing.model.asked import Asked, DialectName
from manydesks.testing.model.fault import Cut, Fail, Fault, Garble, Hang, Refuse

Stop = Literal["end", "calls", "length", "refusal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    #: as the client offers it; a tool in a namespace (codex and MCP) as `namespace__name`
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens, each kind counted once: `input` holds none that `cache_read` or `cache_write` count.

    The OpenAI dialects add the three up for their prompt tokens, and give the last two as parts of them.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    #: None: a quarter of the request's bytes
    input: int | None = None
    #: None: a quarter of the answer's characters
    output: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    #: the part of `output` that was thought
    reasoning: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How fast the body of an answer goes out."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    #: so many at a time
    bytes: int
    #: between one time and the next
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class When:
    """What a request must be like; everything that is given must hold. Texts are looked for as they are written."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    #: in the last thing that the person said
    user: str | None = None
    #: a regular expression to be found there
    user_matches: str | None = None
    #: in the system prompt or another text that nobody said
    system: str | None = None
    #: in a tool's result since the model's last answer
    tool_result: str | None = None
    #: True: there is such a result; False: there is none
    after_tool: bool | None = None
    #: the exact name of a tool on offer
    tool: str | None = None
    #: the exact name of the model
    model: str | None = None
    dialect: DialectName | None = None

    def __post_init__(self) -> None:
        if self.user_matches is not None:
            try:
                re.compile(self.user_matches)
            except re.error as error:
                raise BadInput(reason=f"'user_matches' must be a regular expression: {error}") from None

    def holds(self, asked: Asked) -> bool:
        return (
            (self.user is None or self.user in asked.user)
            and (self.user_matches is None or re.search(self.user_matches, asked.user) is not None)
            and (self.system is None or self.system in asked.system)
            and (self.tool_result is None or any(self.tool_result in result for result in asked.tool_results))
            and (self.after_tool is None or self.after_tool == bool(asked.tool_results))
            and (self.tool is None or self.tool in asked.tools)
            and (self.model is None or self.model == asked.model)
            and (self.dialect is None or self.dialect == asked.dialect)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """An answer: thinking, then text, then tool calls; and what goes wrong with it."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    text: str = ""
    #: chat completions have no official place for it; there it is `reasoning_content`, as several servers do it
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    #: why it ends; None: `calls` if there are any, else `end`
    stop: Stop | None = None
    fault: Fault | None = None
    #: None: as fast as the client reads
    pace: Pace | None = None
    #: seconds before the status line
    delay: float = 0.0
    #: characters of text, thinking or arguments in one event of a stream
    piece: int = 64
    #: None: any request
    when: When | None = None
    #: how often each conversation gets it; None: for ever
    times: int | None = 1

    def __post_init__(self) -> None:
        for wrong, reason in (
            (self.piece < 1, "'piece' must be at least 1"),
            (self.times is not None and self.times < 1, "'times' must be at least 1, or null for ever"),
            (self.delay < 0, "'delay' must not be below 0 seconds"),
            (self.pace is not None and (self.pace.bytes < 1 or self.pace.seconds < 0), _PACE),
            (isinstance(self.fault, Refuse | Fail) and not 400 <= self.fault.status <= 599, _STATUS),
            (_place(self.fault) < 0, "events and bytes are counted from 0"),
            (isinstance(self.fault, Hang) and self.fault.ping_seconds == 0, "'ping_seconds' must be above 0"),
        ):
            if wrong:
                raise BadInput(reason=reason)

    @property
    def stops(self) -> Stop:
        return self.stop or ("calls" if self.calls else "end")


_PACE = "'pace' needs at least 1 byte at a time, and seconds that are not below 0"
_STATUS = "a refusal's 'status' must be from 400 to 599"


def _place(fault: Fault | None) -> int:
    """The smallest number that says where a fault is; 0 if none does."""
    match fault:
        case Cut():
            return min(fault.after_byte or 0, fault.after_event or 0)
        case Hang() | Fail():
            return fault.after_event or 0
        case Garble():
            return fault.event
        case _:
            return 0
