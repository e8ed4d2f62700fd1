"""What a run that was broken off had said or handed over: whoever takes up the rest is told, or would repeat it."""

from __future__ import annotations

import json

from manydesks.domain.envelope import NOTICES
from manydesks.domain.states import ResponseState
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import REPEATABLE

#: for a message that goes back uncounted: a retry says so by its number
BEGUN = (
    "An earlier run had this work and was broken off, so parts of it may be done already: look before you repeat "
    "anything that cannot be undone."
)

#: of one text, in characters, and of all that was sent, in pieces
TEXT, PIECES = 300, 5

_OUT = f"({int(ResponseState.SENDING)}, {int(ResponseState.UNSURE)}, {int(ResponseState.ACKED)})"
_SENT = f"""
select r.message_id, r.operation, b.text from run_messages m
join responses r on r.message_id = m.message join bodies b on b.id = r.body
where m.run = ?1 and r.run = ?1 and r.state in {_OUT} order by r.id"""
_HANDED = """
select h.agent, b.text from run_messages m
join messages p on p.message_id = m.message
join messages h on h.trace = p.trace and h.parent = p.message_id and h.from_run = m.run
join bodies b on b.id = h.body
where m.run = ? order by h.id"""


def sent_by(tx: OfficeTransaction, run: str) -> str | None:
    """What is out of this run, as a sentence for the agent; None: nothing is."""
    pieces = [
        f'"{_clipped(text)}" (in reply to {message})'
        for message, operation, text in tx.all(_SENT, (run,))
        if operation not in REPEATABLE
    ]
    pieces += [f'"{_clipped(text)}" to @{agent}' for agent, text in tx.all(_HANDED, (run,))]
    if not pieces:
        return None
    more = f"; and {len(pieces) - PIECES} more" if len(pieces) > PIECES else ""
    return (
        "The last run of this session was broken off. It had sent this before, which was received and must not be sent "
        f"again: {'; '.join(pieces[:PIECES])}{more}."
    )


def tell_next(tx: OfficeTransaction, row: int, *notices: str | None) -> None:
    """The message goes back: with it the agent will find these notices of the office."""
    said = [notice for notice in notices if notice is not None]
    if not said:
        return
    found = tx.one("select content from messages where id = ?", (row,))
    content = json.loads(found[0]) if found and found[0] else {}
    text = json.dumps({**content, NOTICES: said}, ensure_ascii=False)
    tx.run("update messages set content = ? where id = ?", (text, row))


def _clipped(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= TEXT else f"{said[:TEXT]}…"
