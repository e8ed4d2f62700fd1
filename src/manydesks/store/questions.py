"""Questions of agents to people: asked once, answered once, and the answer told to the agent, sooner or later.

A tool at the desk waits for the answer (`waited`) and gets it as a word in its mailbox. If it has given up, or the
message that it worked on has ended, the answer becomes a message. Either way it never stands in a lane behind the run
that waits for it. A run that is tried again asks the same again, and gets the same question, with its answer if it has
one; the same words asked for another message later on are another question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput, UnknownQuestion, WrongState
from manydesks.domain.question import EXPIRES_MS, Option, Question, chosen
from manydesks.domain.states import MESSAGE_ENDED, QuestionState, word
from manydesks.store import asking
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.notices import tell
from manydesks.store.respond import origin, store_response

OPERATION = "ask_question"
MAX_ANSWER = 20_000

_COLUMNS = (
    "id", "desk_id", "session", "agent", "run", "message", "title", "question", "options", "state", "answer",
    "selected", "answered_by", "waited", "told", "asked_at", "expires_at", "kind", "about",
)  # fmt: skip
_SELECT = f"select {', '.join(_COLUMNS)} from questions"
FIND = f"{_SELECT} where id = ?"
#: still open, whoever it was asked for; or ended, and asked again for the same message: a run that is tried again
SAME = f"""
{_SELECT} where session = ?1 and key = ?2 and (state = 0 or (state = 1 and message = ?3)) order by asked_at desc limit 1
"""
BY_DESK = f"{_SELECT} where session = ? and desk_id = ? order by asked_at desc limit 1"
OF_MESSAGE = f"{_SELECT} where message = ?"
UNTOLD = f"{_SELECT} where session = ? and told = 0 and state > 0 order by asked_at"
OVERDUE = f"{_SELECT} where state = 0 and expires_at <= ? order by expires_at limit 100"
OPEN = f"{_SELECT} where state = 0 order by asked_at, id limit ?"
#: when the next one expires
NEXT = "select min(expires_at) from questions where state = 0"


def ask(
    tx: OfficeTransaction, run: Mapping[str, Any], message: Mapping[str, Any], asked: Question, out_id: str
) -> None:
    """A desk asks; what was asked before is not asked again."""
    about = (asked.id, run["id"], message["message_id"])
    known = _one(tx, SAME, (run["session"], asked.key, message["message_id"]))
    if known is not None:
        sql = "update questions set desk_id = ?, run = ?, message = ?, waited = 1, told = 0 where id = ?"
        tx.run(sql, (*about, known["id"]))
        return
    id = tx.fresh_id("question", "questions")
    options = [{"label": option.label, "value": option.value} for option in asked.options]
    shown = {"id": id, "title": asked.title, "question": asked.question, "options": options}
    response = store_response(
        tx, message, asked.readable(), run=run["id"], outbound=out_id, operation=OPERATION, metadata={"question": shown}
    )
    expires_at = tx.now + EXPIRES_MS
    tx.insert(
        "questions",
        {
            "id": id,
            "desk_id": asked.id,
            "session": run["session"],
            "agent": message["agent"],
            "run": run["id"],
            "message": message["message_id"],
            "key": asked.key,
            "title": asked.title,
            "question": asked.question,
            "options": json.dumps(options, ensure_ascii=False),
            "response": response,
            "state": int(QuestionState.ASKED),
            "asked_at": tx.now,
            "expires_at": expires_at,
        },
    )
    tx.event("question_asked", trace=message["trace"], message=message["message_id"], run=run["id"],
             session=run["session"], agent=message["agent"], question=id, response=response, options=len(options),
             expires_at=expires_at)  # fmt: skip


def heard(tx: OfficeTransaction, session: str, desk_id: str) -> bool:
    """The tool has the answer. False: there is no such question."""
    found = _one(tx, BY_DESK, (session, desk_id))
    if found is not None:
        tx.run("update questions set waited = 0, told = state > 0 where id = ?", (found["id"],))
    return found is not None


def left(tx: OfficeTransaction, session: str, desk_id: str) -> bool:
    """The tool waits no longer: an answer, also one that it has just missed, becomes a message."""
    found = _one(tx, BY_DESK, (session, desk_id))
    if found is None:
        return False
    tx.run("update questions set waited = 0 where id = ?", (found["id"],))
    _pass_on(tx, {**found, "waited": 0})
    return True


def answer(tx: OfficeTransaction, id: str, said: str, *, by: str, own_words: bool = False) -> dict[str, Any]:
    """A person answers, with an option or in own words. Raises UnknownQuestion, WrongState, BadInput.

    `own_words`: also a number or an option's label is text.
    """
    found = _one(tx, FIND, (id,))
    if found is None:
        raise UnknownQuestion(question=id)
    if found["state"] != QuestionState.ASKED:
        status = word(QuestionState(found["state"]))
        raise WrongState(what=f"The question '{id}'", status=status, allowed="an open one", act="answered")
    if not said.strip() or len(said) > MAX_ANSWER:
        raise BadInput(f"An answer is an option or a text of 1 to {MAX_ANSWER} characters.")
    if found["kind"] == asking.BUDGET:
        return _answer_office(tx, found, asking.choice(found, said, own_words=own_words), by=by)
    options = _options(found)
    option = None if own_words else chosen(options, said)
    if option is None and options and not own_words and said.strip().isdecimal():
        raise BadInput(f"There is no option {said.strip()[:20]}, only 1 to {len(options)}; --text sends it as text.")
    text = said if option is None else option.label
    done = {
        "state": int(QuestionState.ANSWERED),
        "answer": text,
        "selected": None if option is None else option.value,
        "answered_by": by,
    }
    _end(tx, found, done)
    message = origin(tx, found["message"])
    tx.event("question_answered", trace=message["trace"], message=found["message"], run=found["run"],
             session=found["session"], agent=found["agent"], body=tx.body(text), question=id,
             option=done["selected"], by=by)  # fmt: skip
    _pass_on(tx, {**found, **done})
    return {"questionId": id, "agent": found["agent"], "selectedOption": done["selected"], "text": text}


def _answer_office(tx: OfficeTransaction, found: Mapping[str, Any], option: Option, *, by: str) -> dict[str, Any]:
    """The office has asked by itself: what was chosen is done, and no agent is told."""
    done = {"state": int(QuestionState.ANSWERED), "answer": option.label, "selected": option.value, "answered_by": by}
    _end(tx, found, done)
    tx.event("question_answered", session=found["session"], agent=found["agent"], body=tx.body(option.label),
             question=found["id"], option=option.value, by=by)  # fmt: skip
    effect = asking.answered(tx, found, option)
    return {"questionId": found["id"], "agent": found["agent"], "selectedOption": option.value, "text": option.label,
            "effect": effect}  # fmt: skip


def answers(tx: OfficeTransaction, session: str) -> list[dict[str, Any]]:
    """How the questions ended that a tool of this session still waits for: the data of the word `answer`."""
    return [_content(row) for row in _all(tx, UNTOLD, (session,)) if row["waited"]]


def open_questions(tx: OfficeTransaction, limit: int = 1000) -> list[dict[str, Any]]:
    """Those that wait for a person, oldest first."""
    return [listed(row) for row in tx.all(OPEN, (limit,))]


def listed(row: tuple[Any, ...]) -> dict[str, Any]:
    """A row of `OPEN` for people; `waited`: a run is under way that waits for it, and is neither idle nor stuck."""
    value = dict(zip(_COLUMNS, row, strict=True))
    return {
        "questionId": value["id"],
        "agent": value["agent"],
        "session": value["session"],
        "messageId": value["message"],
        "title": value["title"],
        "question": value["question"],
        "options": json.loads(value["options"]),
        "waited": bool(value["waited"]),
        "askedAt": value["asked_at"],
        "expiresAt": value["expires_at"],
    }


def expire(tx: OfficeTransaction) -> None:
    """What nobody answered in time ends, and its agent is told."""
    for row in _all(tx, OVERDUE, (tx.now,)):
        _end(tx, row, {"state": int(QuestionState.EXPIRED)})
        if row["kind"] == asking.BUDGET:
            tx.event("question_expired", session=row["session"], agent=row["agent"], question=row["id"])
            continue
        message = origin(tx, row["message"])
        tx.event("question_expired", trace=message["trace"], message=row["message"], session=row["session"],
                 agent=row["agent"], question=row["id"])  # fmt: skip
        _pass_on(tx, {**row, "state": QuestionState.EXPIRED})


def message_ended(tx: OfficeTransaction, message: Mapping[str, Any], *, well: bool, reason: str) -> None:
    """Nobody waits at the desk any more. Open questions of a message that failed end with it."""
    for row in _all(tx, OF_MESSAGE, (message["message_id"],)):
        tx.run("update questions set waited = 0 where id = ?", (row["id"],))
        if row["state"] == QuestionState.ASKED and not well:
            _end(tx, row, {"state": int(QuestionState.WITHDRAWN), "told": 1})
            tx.event("question_withdrawn", trace=message["trace"], message=row["message"], session=row["session"],
                     agent=row["agent"], question=row["id"], reason=reason)  # fmt: skip
        elif well:
            _pass_on(tx, {**row, "waited": 0})


def _pass_on(tx: OfficeTransaction, row: Mapping[str, Any]) -> None:
    """Tell the agent by a message how its question ended, unless a run will hear it, or has."""
    if row["state"] == QuestionState.ASKED or row["told"]:
        return
    message = origin(tx, row["message"])
    if row["waited"] and message["state"] < MESSAGE_ENDED:
        return
    content = _content(row)
    tell(tx, message, row["agent"], content, sender=row["answered_by"])
    tx.run("update questions set told = 1, waited = 0 where id = ?", (row["id"],))


def _end(tx: OfficeTransaction, row: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    values = {**values, "answered_at": tx.now}
    columns = ", ".join(f"{name} = ?" for name in values)
    tx.run(f"update questions set {columns} where id = ? and state = 0", (*values.values(), row["id"]))


def _content(row: Mapping[str, Any]) -> dict[str, Any]:
    """How a question ended, as the desk reads it."""
    status, text = word(QuestionState(row["state"])), row["answer"]
    who = row["answered_by"] or "the person"
    result = f"{who} answered your question “{row['question']}”: {text}"
    if row["state"] != QuestionState.ANSWERED:
        result = f"Nobody answered your question “{row['question']}” in time; decide without, or ask another way."
    return {
        "type": "question_response",
        "action": "ask_user_question",
        "status": status,
        "questionId": row["desk_id"],
        "selectedOption": row["selected"],
        "text": text,
        "userId": row["answered_by"],
        "result": result,
    }


def _options(row: Mapping[str, Any]) -> tuple[Option, ...]:
    return tuple(Option(label=option["label"], value=option["value"]) for option in json.loads(row["options"]))


def _one(tx: OfficeTransaction, sql: str, values: tuple[Any, ...]) -> dict[str, Any] | None:
    row = tx.one(sql, values)
    return dict(zip(_COLUMNS, row, strict=True)) if row else None


def _all(tx: OfficeTransaction, sql: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(_COLUMNS, row, strict=True)) for row in tx.all(sql, values)]
