"""What the office itself asks and tells people: about money, so far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.domain.question import Option, chosen
from manydesks.domain.states import QuestionState
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.places import session
from manydesks.store.respond import origin, store_response
from manydesks.store.spending import allow_again

#: the kind of a question that the office asks
BUDGET = "budget"
ALLOW, KEEP = "allow", "keep"
OPTIONS = (
    Option(label="Allow as much again", value=ALLOW),
    Option(label="Keep paused until the next day", value=KEEP),
)
#: what was asked and has ended goes after this
KEPT_MS = 90 * 24 * 3_600_000
#: where the owner is always reached
CONSOLE = {
    "channel": "console", "instance": "", "platform_id": "terminal", "thread_id": "", "sender": "owner",
    "sender_id": "",
}  # fmt: skip


def ask_owner(tx: OfficeTransaction, agent: str, reason: str, *, about: str, expires_at: int) -> None:
    """One question on the owner's console; it ends with the day it is about."""
    tx.run("delete from questions where about is not null and state > 0 and asked_at < ?", (tx.now - KEPT_MS,))
    id = tx.fresh_id("question", "questions")
    lane = session(tx, agent)
    question = f"{reason} {agent} is paused; its messages wait."
    options = [{"label": option.label, "value": option.value} for option in OPTIONS]
    choices = " or ".join(f"`manydesks answer {id} {n}` ({o.label.lower()})" for n, o in enumerate(OPTIONS, 1))
    # a trace of its own, so that it leaves the store as other traces do
    place = {"message_id": None, "trace": tx.fresh_id("trace", "arrivals", "trace"), "session": lane, "agent": agent,
             "body": None, **CONSOLE}  # fmt: skip
    shown = {"id": id, "title": "Budget", "question": question, "options": options}
    response = store_response(
        tx, place, f"{question} {choices}", run=None, operation="notice", metadata={"question": shown}
    )
    tx.insert(
        "questions",
        {
            "id": id,
            "desk_id": id,
            "session": lane,
            "agent": agent,
            "run": "",
            "message": "",
            "key": about,
            "title": "Budget",
            "question": question,
            "options": json.dumps(options, ensure_ascii=False),
            "response": response,
            "state": int(QuestionState.ASKED),
            "waited": 0,
            # nobody at a desk is to be told how it ends
            "told": 1,
            "asked_at": tx.now,
            "expires_at": expires_at,
            "kind": BUDGET,
            "about": about,
        },
    )
    tx.event("question_asked", trace=place["trace"], session=lane, agent=agent, question=id, response=response,
             options=len(options), expires_at=expires_at)  # fmt: skip


def choice(row: Mapping[str, Any], said: str, *, own_words: bool) -> Option:
    """The option that the owner means: the office understands no other words. Raises BadInput."""
    option = None if own_words else chosen(OPTIONS, said)
    if option is None:
        listed = " or ".join(f"{number} ({option.label})" for number, option in enumerate(OPTIONS, 1))
        raise BadInput(f"The office asks this one, and understands {listed} only.")
    return option


def answered(tx: OfficeTransaction, row: Mapping[str, Any], option: Option) -> str:
    """Do what the owner has chosen; one sentence about it."""
    scope, subject, day = str(row["about"]).split("/")
    if option.value == KEEP:
        return f"{row['agent']} stays paused until the next day"
    allow_again(tx, scope, subject, day)
    return f"{'the office' if scope == 'office' else subject} may use as much again"


def withdraw_questions(tx: OfficeTransaction, about: str, reason: str) -> None:
    """What was asked about it needs no answer any more."""
    found = tx.all("select id, agent, session from questions where about = ? and state = 0", (about,))
    for id, agent, lane in found:
        tx.run("update questions set state = ?, answered_at = ? where id = ? and state = 0",
               (int(QuestionState.WITHDRAWN), tx.now, id))  # fmt: skip
        tx.event("question_withdrawn", session=lane, agent=agent, question=id, reason=reason)


def tell_place(tx: OfficeTransaction, message_id: str, text: str) -> None:
    """A notice to where the message came from."""
    store_response(tx, origin(tx, message_id), text, run=None, operation="notice")
