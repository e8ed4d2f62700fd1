"""What every group of acts is given, and how arguments from another process are checked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from manydesks.domain.errors import BadInput
from manydesks.office.hooks.roster import Hooks
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.store.store import Store

#: characters of an id or a name that comes from outside: a sender's, a conversation's, an agent's
MOST_NAME = 256

Act = Callable[..., Awaitable[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Means:
    """What acts work with."""

    store: Store
    home: Home
    in_force: InForce
    #: the owner's plugins; None: none are asked
    hooks: Hooks | None = None
    #: the host's: ends runs, each by its session and fence; None: a lone command acts, and nothing runs
    stop_runs: Callable[[Sequence[tuple[str, int]]], None] | None = None
    #: the host's: ends the runners that sit without work at these sessions' desks; None: as above
    dismiss: Callable[[Sequence[str]], Awaitable[None]] | None = None


class Acts(Protocol):
    """One noun's acts."""

    def acts(self) -> Mapping[str, Act]:
        """By the name that a surface asks for; each takes keyword arguments only, and checks them itself."""


def texts(**given: object) -> None:
    """What people write; how long it may be, whoever takes it says."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise BadInput(f"'{name}' must be text.")
        storable(name, value)


def strings(**given: object) -> None:
    """Ids and names: they stand in every row, event and table."""
    texts(**given)
    for name, value in given.items():
        if isinstance(value, str) and len(value) > MOST_NAME:
            raise BadInput(f"'{name}' has {len(value):,} characters; at most {MOST_NAME} are allowed.")


def strings_if_given(**given: object) -> None:
    strings(**{name: value for name, value in given.items() if value is not None})


def storable(name: str, value: object) -> None:
    """Half a surrogate pair is valid in JSON, but nothing that could be stored."""
    try:
        (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()
    except UnicodeEncodeError:
        raise BadInput(f"'{name}' is not valid Unicode text.") from None
