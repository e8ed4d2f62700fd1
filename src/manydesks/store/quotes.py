"""Events that quote a text: the reason of a failure is whatever a program wrote, and events never change.

Only what is repeated word for word is found; whoever says it in other words is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from manydesks.store.ledger import OfficeTransaction

#: so many characters in a row that are also in the text are no accident
QUOTE = 16
#: a reason, or a text, that is shorter is found everywhere
LEAST = 12

#: what programs and people may fill with words of their own
_SAID = "json_extract(data, '$.reason'), json_extract(data, '$.detail'), json_extract(data, '$.option')"
#: of these messages and runs; and of nobody's trace, since it began: runners, channels, plugins
SAYING = f"""
select seq, {_SAID} from events where trace = ?1
  and (message in (select value from json_each(?2)) or run in (select value from json_each(?3)))
union all
select seq, {_SAID} from events
where seq > coalesce((select min(seq) from events where trace = ?1), 0) and trace is null
"""
#: those that were found when it was forgotten, and are there still
NOTED = """
select seq from events where seq in (
  select n.value from events e, json_each(e.data, '$.quoted_in') n
  where e.trace = ?1 and e.kind = 'body_erased' and e.message in (select value from json_each(?2)))
"""
#: reads all of them
HOLDING = "select count(*) from events where exists (select 1 from json_each(?1) where instr(data, value))"


def quoting(
    tx: OfficeTransaction, trace: str, messages: Sequence[str], runs: Sequence[str], texts: Sequence[str]
) -> dict[int, tuple[str, ...]]:
    """By the number of the event, what it says that quotes one of these texts; nothing for one that was noted before,
    when the texts were still there."""
    found: dict[int, tuple[str, ...]] = {seq: () for (seq,) in tx.all(NOTED, (trace, json.dumps(messages)))}
    if not texts:
        return found
    for seq, *said in tx.all(SAYING, (trace, json.dumps(messages), json.dumps(runs))):
        if words := tuple(one for one in said if isinstance(one, str) and quotes(one, texts)):
            found[seq] = words
    return dict(sorted(found.items()))


def holding(tx: OfficeTransaction, pieces: Sequence[str]) -> int:
    """How many events hold one of these pieces, whatever they are about."""
    tx.settle()
    (number,) = tx.one(HOLDING, (json.dumps(list(pieces)),)) or (0,)
    return int(number)


def quotes(said: str, texts: Iterable[str]) -> bool:
    """Whether it has enough in a row of one of the texts, or all of it, or is a part of it."""
    whole, parts = said.strip(), set(_parts(said))
    for text in texts:
        for inner, outer in ((whole, text), (text.strip(), whole)):
            if len(inner.encode()) >= LEAST and inner in outer:
                return True
        if parts and any(part in parts for part in _parts(text)):
            return True
    return False


def _parts(text: str) -> Iterator[str]:
    return (text[at : at + QUOTE] for at in range(len(text) - QUOTE + 1))
