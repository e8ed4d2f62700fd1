"""What an agent answered to a message: in words and files, in the run that ended it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from manydesks.store.ledger import OfficeTransaction

#: of a message that was tried several times, what the last run said
OWN = """
select b.text, r.files from responses r join bodies b on b.id = r.body
where r.message_id = ?1 and r.run = (select run from messages where message_id = ?1)
  and r.operation in ('message', 'card') order by r.id
"""
#: a run over several messages may answer them with one word: what it had said last when this one ended; `outbound` is
#: the condition of the index
TOGETHER = """
select b.text, r.files from messages m
join responses r on r.run = m.run and r.outbound is not null
join bodies b on b.id = r.body
where m.message_id = ?1 and r.message_id <> ?1 and r.operation in ('message', 'card') and r.created_at <= m.updated_at
order by r.id desc limit 1
"""


class Said(NamedTuple):
    text: str
    #: as the office keeps them: name, bytes, sha256, path
    files: list[dict[str, Any]]


def said(tx: OfficeTransaction, message_id: str) -> Said:
    """The answer to a message that has ended well; an agent may have said nothing."""
    rows = tx.all(OWN, (message_id,)) or tx.all(TOGETHER, (message_id,))
    files = [file for _, files in rows if files for file in json.loads(files)]
    return Said("\n\n".join(text for text, _ in rows), files)
