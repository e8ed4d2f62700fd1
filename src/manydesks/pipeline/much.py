"""Whether a run has much to do: then Java's second compiler saves more CPU than it takes."""

from __future__ import annotations

from pathlib import Path

from manydesks.pipeline import tables
from manydesks.pipeline.place import Place
from manydesks.pipeline.schemas import BODIES, EVENTS
from manydesks.pipeline.sources.ledger import heads, letters

#: so many events are much
MANY_EVENTS = 1_000_000
#: and so many letters of texts, whose words are counted: three thousand pages or so
MANY_LETTERS = 10_000_000
#: a byte of a compressed file is about so many letters
LETTERS_A_BYTE = 2


def is_much(lake: Place, db: Path, *, anew: bool) -> bool:
    """Of what the lake has not yet; `anew`: of all that there is. Read off the store and the tables' logs; raises as
    `heads` does."""
    known = 0 if anew else tables.covered(lake, EVENTS, EVENTS.name)
    if heads(db).events - known > MANY_EVENTS:
        return True
    new = letters(db, tables.covered(lake, BODIES, BODIES.name))
    old = tables.bytes_of(tables.snapshot(lake, BODIES)) if anew and tables.exists(lake, BODIES) else 0
    return new + old * LETTERS_A_BYTE > MANY_LETTERS
