"""Finds channels: the files of this folder and the entry points of the group `manydesks.channels`."""

from __future__ import annotations

from collections.abc import Sequence

from manydesks import channels
from manydesks.channels.base import Descriptor
from manydesks.domain.errors import BadInput
from manydesks.runner import members

GROUP = "manydesks.channels"


class Channels:
    """Those there are at this moment; a built-in's name cannot be taken by a stranger."""

    def __init__(self, only: Sequence[Descriptor] | None = None) -> None:
        #: for tests: these, and no others
        self._all = None if only is None else {found.name: found for found in only}

    def names(self) -> list[str]:
        return sorted(self._found())

    def get(self, name: str) -> Descriptor:
        found = self._found().get(name)
        if found is None:
            raise BadInput(f"There is no channel '{name}'; there are {', '.join(self.names())}.")
        return found

    def _found(self) -> dict[str, Descriptor]:
        if self._all is None:
            ours = {found.name: found for found in members.built_in(channels, "CHANNEL", Descriptor)}
            self._all = {found.name: found for found in members.strangers(GROUP, Descriptor)} | ours
        return self._all
