"""Messages that wait for others: when they go on, and what they are told then. Pure; the store keeps the rows.

A step of a chain needs every answer before it. A join runs when nothing is left to wait for, whatever became of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from manydesks.domain.states import PartState

Kind = Literal["chain", "join"]

#: how much of the answers one message is told, all of them together
TOLD_CHARS = 60_000
#: of one reason
REASON_CHARS = 500


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the messages that are waited for, as far as it has come."""

    agent: str
    message_id: str
    state: PartState
    #: what its agent said
    said: str = ""
    #: why there is no answer
    reason: str = ""


def verdict(kind: Kind, states: Sequence[PartState]) -> Literal["wait", "go", "broken", "over"]:
    """What becomes of the waiting message. `broken`: it goes on only if what failed is tried again; `over`: never."""
    if kind == "join":
        return "wait" if PartState.OPEN in states else "go"
    if PartState.LOST in states:
        return "over"
    if PartState.DEAD in states:
        return "broken"
    return "wait" if PartState.OPEN in states else "go"


def told(own: str, parts: Sequence[Part], *, most: int = TOLD_CHARS) -> str:
    """The text of a message that goes on: its own, then every answer under the name of its agent.

    Answers are quoted line by line, so none of them can be taken for another one's, or for a word of the office. What
    is too long, all answers together, is cut at its end, and says so; short ones leave their share to the others.
    """
    room = _shares([len(part.said) for part in parts], most)
    return "\n\n".join(filter(None, (own, *(_section(part, share) for part, share in zip(parts, room, strict=True)))))


def _section(part: Part, share: int) -> str:
    match part.state:
        case PartState.ANSWERED if part.said.strip():
            text = part.said.strip()
            cut = f"\n\n(This answer was cut; it has {len(text)} characters in all.)" if len(text) > share else ""
            # every way to end a line, also those that only some programs know
            quoted = "\n".join(f"> {line}".rstrip() for line in text[:share].splitlines())
            return f"@{part.agent} answered:\n\n{quoted}{cut}"
        case PartState.ANSWERED:
            return f"@{part.agent} answered without a word."
        case PartState.OPEN:
            return f"@{part.agent} has not answered yet."
        case _:
            return f"@{part.agent} did not answer: {one_line(part.reason) or 'no reason is known'}"


def one_line(text: str) -> str:
    """A reason within a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARS else line[: REASON_CHARS - 1] + "…"


def _shares(lengths: Sequence[int], most: int) -> list[int]:
    """How much of each text may stay: the shortest first, what it leaves goes to the rest."""
    shares, left = [0] * len(lengths), most
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    for done, at in enumerate(order):
        shares[at] = min(lengths[at], left // (len(order) - done))
        left -= shares[at]
    return shares
