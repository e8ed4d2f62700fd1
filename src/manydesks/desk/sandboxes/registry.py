"""Finds sandboxes: the files of this folder and the entry points of the group `manydesks.sandboxes`."""

from __future__ import annotations

from manydesks.desk import sandboxes
from manydesks.desk.sandboxes.base import Descriptor
from manydesks.domain.errors import BadInput
from manydesks.runner import members

GROUP = "manydesks.sandboxes"


class Sandboxes:
    """Those there are at this moment; a built-in's name cannot be taken by a stranger."""

    def __init__(self) -> None:
        self._built_in = {found.name: found for found in members.built_in(sandboxes, "SANDBOX", Descriptor)}
        self._all: dict[str, Descriptor] | None = None

    def names(self) -> list[str]:
        return sorted(self._found())

    def get(self, name: str) -> Descriptor:
        # entry points are read from disk only for a name that is not ours
        found = self._built_in.get(name) or self._found().get(name)
        if found is None:
            raise BadInput(reason=f"there is no sandbox '{name}'; there are {', '.join(self.names())}")
        return found

    def _found(self) -> dict[str, Descriptor]:
        if self._all is None:
            self._all = {found.name: found for found in members.strangers(GROUP, Descriptor)} | self._built_in
        return self._all
