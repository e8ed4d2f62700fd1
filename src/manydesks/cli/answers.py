"""Waiting for everything that follows from a message: its answers, its hand-offs and theirs.

`Answers` looks at a trace as the store shows it and decides; it reads and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: responses that may still change before anyone has them; shown now, they might be shown twice
UNSETTLED = frozenset({"pending", "sending"})
#: responses that nobody gets
UNSEEN = UNSETTLED | {"held", "withdrawn"}
#: reasons for which a held message goes on without a person; unknown ones are waited for as well, up to the time limit
PASSING = frozenset({None, "", "chain", "join", "schedule"})
#: those of them that go on when others have ended
WAITING = frozenset({"chain", "join"})
#: messages that did not end well
FAILED = frozenset({"dead", "cancelled", "held"})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response that has reached its reader."""

    id: int | str
    message_id: str
    #: who answered
    agent: str
    text: str
    status: str
    #: the office's word that the message died, or will not be asked; `failures` says the same, with what to do
    obituary: bool
    #: more than one agent works on the trace, so far
    several: bool
    #: as the reader shows it
    response: Mapping[str, Any]
    #: the message that it was written for, if it is another one, which came to the agent together with this
    together: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "messageId": self.message_id,
            "agent": self.agent,
            "operation": self.response.get("operation") or "message",
            "text": self.text,
            "files": self.response.get("files") or [],
            "questionId": self.response.get("questionId"),
            "status": self.status,
            "answeredWith": self.together,
        }


class Answers:
    """What a waiting person has been told already, so that nothing is told twice."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def new(self, trace: Mapping[str, Any]) -> Iterator[Answer]:
        """The responses that are there to be seen since the last look. One that answers a batch is seen once."""
        several = len({message["agent"] for message in trace["messages"]}) > 1
        for message in trace["messages"]:
            for response, together in _answers_to(message):
                key = str(response["id"])
                if response["status"] in UNSEEN or key in self._shown:
                    continue
                self._shown.add(key)
                yield Answer(
                    id=response["id"],
                    message_id=message["messageId"],
                    agent=message["agent"],
                    text=response["text"] or "",
                    status=response["status"],
                    obituary=message["status"] in FAILED and response.get("operation") == "notice",
                    several=several,
                    response=response,
                    together=together,
                )


def _answers_to(message: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """Its own responses, or the one to another message that answered both, with that message's id."""
    for response in message["responses"]:
        yield response, None
    if (other := message.get("answeredWith")) is not None:
        yield other["response"], other["messageId"]


def settled(trace: Mapping[str, Any]) -> bool:
    """Nothing moves any more: every message has ended or waits for a person, every response is where it will be."""
    messages = {message["messageId"]: message for message in trace["messages"]}
    return all(
        not _moves(message, messages)
        and not any(response["status"] in UNSETTLED for response, _ in _answers_to(message))
        for message in trace["messages"]
    )


def _moves(message: Mapping[str, Any], among: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether it goes on without a person. One that waits for others does if one of them does."""
    if message["status"] != "held":
        return message["status"] in ("pending", "processing")
    if message.get("wait") is None or message.get("holdReason") not in WAITING:
        return message.get("holdReason") in PASSING
    parts = (among.get(part["messageId"]) for part in message["wait"]["parts"])
    return any(part is not None and _moves(part, among) for part in parts)


def _needs_a_person(message: Mapping[str, Any]) -> bool:
    broken = (message.get("wait") or {}).get("status") == "broken"
    return message.get("holdReason") not in PASSING or broken


def verdict(trace: Mapping[str, Any]) -> str:
    """One word for a trace that has settled: the worst that happened in it."""
    states = {message["status"] for message in trace["messages"]}
    for worst in ("dead", "cancelled", "held"):
        if worst in states:
            return worst
    return "undelivered" if any(_lost(trace)) else "completed"


def failures(trace: Mapping[str, Any]) -> list[str]:
    """Why the trace did not end well, a sentence each; empty if it did."""
    found = []
    for message in trace["messages"]:
        name = f"{message['messageId']} to {message['agent']}"
        if message["status"] == "dead":
            reason = (message.get("lastError") or "no reason is known").rstrip(".")
            found.append(f"{name} failed: {reason}. `manydesks queue retry {message['messageId']}` tries it again.")
        elif message["status"] == "cancelled":
            reason = (message.get("lastError") or "").rstrip(".")
            found.append(f"{name} was cancelled{f': {reason}' if reason else ''}.")
        elif message["status"] == "held":
            found.append(held_sentence(message))
    for response in _lost(trace):
        reason = f" ({response['lastError']})" if response.get("lastError") else ""
        found.append(f"The answer {response['id']} is {response['status']}{reason}: it was not delivered.")
    return found


def setbacks(trace: Mapping[str, Any]) -> list[str]:
    """Why what still moves has not ended: the last failed attempt of each such message."""
    return [
        f"{message['messageId']} to {message['agent']} has failed so far: {message['lastError']}"
        for message in trace["messages"]
        if message.get("lastError") and message["status"] in ("pending", "processing")
    ]


def pauses(trace: Mapping[str, Any], agents: Iterable[Mapping[str, Any]], *, office: bool) -> list[str]:
    """Why what waits does not begin: the whole office is paused, or the agents that it waits for are."""
    waits = {message["agent"] for message in trace["messages"] if message["status"] == "pending"}
    if waits and office:
        return ["The whole office is paused; `manydesks queue resume --all` lets it go on."]
    return [
        f"{agent['id']} is paused: {agent['pauseReason']}"
        if agent.get("pauseReason")
        else f"{agent['id']} is paused; `manydesks agent resume {agent['id']}` lets it go on."
        for agent in agents
        if agent["paused"] and agent["id"] in waits
    ]


def _lost(trace: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in trace["messages"]:
        for response in message["responses"]:
            if response["status"] in ("dead", "expired", "held"):
                yield response


def held_sentence(message: Mapping[str, Any]) -> str:
    why = ": ".join(part for part in (message.get("holdReason"), message.get("lastError")) if part).rstrip(".")
    name, id = f"{message['messageId']} to {message['agent']}", message["messageId"]
    told = f"{name} is held{f' ({why})' if why else ''}"
    if not _needs_a_person(message):  # it goes on when its time has come; pushing it would take its turn from another
        return f"{told}."
    return f"{told}; `manydesks queue release {id}` lets it go on, `manydesks queue drop {id}` gives it up."
