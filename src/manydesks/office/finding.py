"""One piece of a check-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: bad: something that is set up does not work. note: something that is not used, or could be better
Level = Literal["ok", "note", "bad"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One piece."""

    #: a word for it
    what: str
    level: Level
    #: a sentence
    says: str
    #: what to do; empty: nothing
    advice: str = ""
