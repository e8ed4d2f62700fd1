"""What a desk's row asks for: a message, an edit, a reaction, a card, a question, work for a mate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain import insight
from manydesks.domain.attachment import Attachment, NotTaken, Taken
from manydesks.domain.card import read_card, readable
from manydesks.domain.mail import Outbound
from manydesks.domain.question import read_question
from manydesks.store import mates, questions
from manydesks.store.directory import directory
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.outcome import Rules
from manydesks.store.respond import ADDRESS, respond, store_response

UNREADABLE = "unreadable message"
UNKNOWN = "unknown target"

_PLACE = ", ".join(ADDRESS)
OWN = f"select id, operation, {_PLACE} from responses where session = ? and outbound = ? order by id desc limit 1"
GIVEN = f"select message_id, {_PLACE} from messages where message_id = ? and session = ?"

MAX_EMOJI = 32
MAX_FALLBACK = 8_000


def apply(
    tx: OfficeTransaction,
    run: Mapping[str, Any],
    row: Outbound,
    message: Mapping[str, Any],
    rules: Rules,
    files: Taken,
) -> str | None:
    """Do what the row asks for. Else one word or two why nothing was done: for `output_discarded`."""
    content = row.content
    if row.kind == "system":
        return _act(tx, run, row, message, rules)
    if row.kind != "chat":
        return UNREADABLE
    match content.get("operation"):
        case None:
            return _say(tx, run, row, message, rules, files)
        case "edit":
            return _edit(tx, run, row, message)
        case "reaction":
            return _react(tx, run, row, message)
        case "card":
            card, fallback = read_card(content.get("card")), content.get("fallbackText")
            if card is None:
                return UNREADABLE
            text = fallback if isinstance(fallback, str) and 0 < len(fallback) <= MAX_FALLBACK else readable(card)
            about = {"run": run["id"], "outbound": row.id, "operation": "card"}
            store_response(tx, message, text, **about, metadata={"card": card})
            return None
        case questions.OPERATION:
            asked = read_question(content)
            if asked is None:
                return UNREADABLE
            questions.ask(tx, run, message, asked, row.id)
            return None
        case _:
            return UNREADABLE


def _say(
    tx: OfficeTransaction,
    run: Mapping[str, Any],
    row: Outbound,
    message: Mapping[str, Any],
    rules: Rules,
    files: Taken,
) -> str | None:
    text = row.content.get("text")
    if not isinstance(text, str):
        return UNREADABLE
    lost = [file for file in files if isinstance(file, NotTaken)]
    respond(
        tx,
        message,
        text,
        run=run["id"],
        outbound=row.id,
        people=directory(tx),
        limits=rules.limits,
        files=[file for file in files if isinstance(file, Attachment)],
        notices=[f"The file '{file.name}' could not be sent: {file.reason}." for file in lost],
        wait_ms=rules.wait_ms,
        metadata=row.metadata,
    )
    return None


def _edit(tx: OfficeTransaction, run: Mapping[str, Any], row: Outbound, message: Mapping[str, Any]) -> str | None:
    text, target = row.content.get("text"), row.content.get("target")
    if not isinstance(text, str) or not text.strip() or not isinstance(target, str):
        return UNREADABLE
    # only what this session has said: an id of another one's is unknown here
    found = tx.one(OWN, (run["session"], target))
    if found is None or found[1] not in ("message", "card"):
        return UNKNOWN
    about = {"response": found[0]}
    store_response(
        tx, message, text, run=run["id"], outbound=row.id, operation="edit",
        metadata={**(row.metadata or {}), "target": about},
        address=dict(zip(ADDRESS, found[2:], strict=True)),
    )  # fmt: skip
    return None


def _react(tx: OfficeTransaction, run: Mapping[str, Any], row: Outbound, message: Mapping[str, Any]) -> str | None:
    emoji, target = row.content.get("emoji"), row.content.get("target")
    if not isinstance(emoji, str) or not 0 < len(emoji) <= MAX_EMOJI or not isinstance(target, str):
        return UNREADABLE
    own = tx.one(OWN, (run["session"], target))
    given = tx.one(GIVEN, (target, run["session"])) if own is None else None
    if own is not None:
        about, place = {"response": own[0]}, own[2:]
    elif given is not None:
        about, place = {"message": given[0]}, given[1:]
    else:
        return UNKNOWN
    store_response(
        tx, message, emoji, run=run["id"], outbound=row.id, operation="reaction", metadata={"target": about},
        address=dict(zip(ADDRESS, place, strict=True)),
    )  # fmt: skip
    return None


def _act(
    tx: OfficeTransaction, run: Mapping[str, Any], row: Outbound, message: Mapping[str, Any], rules: Rules
) -> str | None:
    """A request to the office itself."""
    payload = row.content.get("payload")
    if not isinstance(payload, Mapping):
        return UNREADABLE
    question = payload.get("questionId")
    match row.content.get("action"):
        case mates.ACTION:
            return mates.send(tx, run, message, payload, rules.limits, out_id=row.id)
        case insight.ACTION:
            return None  # it changes nothing; whoever takes the rows answers it, beside the store
        case "question_heard" if isinstance(question, str):
            return None if questions.heard(tx, run["session"], question) else UNKNOWN
        case "question_left" if isinstance(question, str):
            return None if questions.left(tx, run["session"], question) else UNKNOWN
        case _:
            return UNREADABLE
