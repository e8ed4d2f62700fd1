"""The contract of a plugin: three decorators, what their functions are given, and what they may do with it.

Standard library only, as this is what a plugin's process imports.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

from manydesks.domain.event import KINDS

Hook = Literal["incoming", "outgoing", "on"]
F = TypeVar("F", bound=Callable[..., Any])

#: where a decorator leaves its word on a function
ATTRIBUTE = "__manydesks_hook__"
#: lower ones go first; those of the same order by their plugin's name, then in the order of its file
ORDER = 100
#: no hook may ask for more seconds
MOST_SECONDS = 60.0
#: for `on`: every kind there is, also those of later versions
EVERY = "*"


@dataclass(kw_only=True)
class Message:
    """What a person wrote, before it is routed and stored. Only changes of `text` and `metadata` count."""

    text: str
    #: goes with the message to the agent's desk, and to `outgoing` with the answer; a JSON object
    metadata: dict[str, Any] = field(default_factory=dict)
    #: the door that it came through, and its id there
    source: str = ""
    id: str = ""
    channel: str = ""
    instance: str = ""
    #: the place on the channel, and its thread
    platform_id: str = ""
    thread: str = ""
    sender: str = ""
    sender_id: str = ""
    #: the agent that was named beside the text; None: the text says who
    to: str | None = None
    #: names of the files that come with it
    files: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Answer:
    """What an agent wrote, hand-offs included, before it is stored. Only changes of `text` and `metadata` count."""

    text: str
    #: goes with the response to its channel; a JSON object
    metadata: dict[str, Any] = field(default_factory=dict)
    agent: str = ""
    #: message, or edit: a new text for an earlier one
    operation: str = "message"
    #: the message that it answers, and the `metadata` that `incoming` gave to it
    message: str = ""
    asked: dict[str, Any] = field(default_factory=dict)
    trace: str = ""
    run: str = ""
    channel: str = ""
    instance: str = ""
    platform_id: str = ""
    thread: str = ""
    #: whose message it answers
    sender: str = ""
    sender_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that has happened, as the ledger has it."""

    seq: int
    #: milliseconds UTC
    at: int
    kind: str
    trace: str | None = None
    parent: str | None = None
    message: str | None = None
    run: str | None = None
    session: str | None = None
    agent: str | None = None
    #: the text that it speaks of, if any
    text: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


class Refused(Exception):
    """Raised by `incoming`: the message is not taken. Its sentence is for the sender."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a decorator said about a function."""

    hook: Hook
    #: the function's name
    name: str
    order: int = ORDER
    #: seconds; None: `hooks.timeout_seconds`
    timeout: float | None = None
    #: of `on`: the kinds of events
    kinds: tuple[str, ...] = ()


@overload
def incoming(function: F, /) -> F: ...
@overload
def incoming(*, order: int = ORDER, timeout: float | None = None) -> Callable[[F], F]: ...
def incoming(function: F | None = None, /, *, order: int = ORDER, timeout: float | None = None) -> F | Callable[[F], F]:
    """Give the function each `Message` before it is routed. It may change it, return a new text, or raise `Refused`."""
    return _either(function, "incoming", order, timeout)


@overload
def outgoing(function: F, /) -> F: ...
@overload
def outgoing(*, order: int = ORDER, timeout: float | None = None) -> Callable[[F], F]: ...
def outgoing(function: F | None = None, /, *, order: int = ORDER, timeout: float | None = None) -> F | Callable[[F], F]:
    """Give the function each `Answer` before it is stored. It may change it, or return a new text."""
    return _either(function, "outgoing", order, timeout)


def on(*kinds: str, timeout: float | None = None) -> Callable[[F], F]:
    """Give the function each `Event` of these kinds, in the ledger's order; what it returns is ignored."""
    if not kinds or not all(isinstance(kind, str) for kind in kinds):
        raise TypeError("@on needs the kinds of events, such as @on('message_dead'); '*' means all of them")
    for kind in kinds:
        if kind not in KINDS and kind != EVERY:
            near = difflib.get_close_matches(kind, KINDS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(f"there is no kind of event '{kind}'{hint}")
    return _marked("on", ORDER, timeout, kinds)


def specs(names: Iterable[tuple[str, Any]]) -> list[tuple[Spec, Callable[..., Any]]]:
    """The hooks among the names of a module, in their order there."""
    found: list[tuple[Spec, Callable[..., Any]]] = []
    for name, value in names:
        for said in getattr(value, ATTRIBUTE, ()) if callable(value) else ():
            hook, order, timeout, kinds = said
            found.append((Spec(hook=hook, name=name, order=order, timeout=timeout, kinds=kinds), value))
    return found


def _either(function: F | None, hook: Hook, order: int, timeout: float | None) -> F | Callable[[F], F]:
    if function is not None and not callable(function):
        raise TypeError(f"@{hook} takes order= and timeout=, by name")
    mark: Callable[[F], F] = _marked(hook, order, timeout, ())
    return mark if function is None else mark(function)


def _marked(hook: Hook, order: int, timeout: float | None, kinds: tuple[str, ...]) -> Callable[[F], F]:
    if type(order) is not int or abs(order) > 1_000_000:
        raise TypeError("order= is a whole number; lower ones go first")
    if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout <= MOST_SECONDS):
        raise TypeError(f"timeout= is a number of seconds above 0 and up to {MOST_SECONDS:g}")

    def mark(function: F) -> F:
        # one function may serve several hooks
        said = (*getattr(function, ATTRIBUTE, ()), (hook, order, timeout, kinds))
        setattr(function, ATTRIBUTE, said)
        return function

    return mark
