"""What every group of acts is given, and how arguments from another process are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from manydesks.domain.errors import BadInput
from manydesks.office.hooks.roster import Hooks
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.store.store import Store

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


def strings(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise BadInput(f"'{name}' must be text.")
        try:
            value.encode()
        except UnicodeEncodeError:
            # half a surrogate pair: valid in JSON, but nothing that could be stored
            raise BadInput(f"'{name}' is not valid Unicode text.") from None


def strings_if_given(**given: object) -> None:
    strings(**{name: value for name, value in given.items() if value is not None})
