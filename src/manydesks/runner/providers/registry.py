"""Finds providers: the files of this folder and the entry points of the group `manydesks.providers`."""

from __future__ import annotations

from manydesks.domain.errors import BadInput
from manydesks.runner import members, providers
from manydesks.runner.providers.base import Descriptor

GROUP = "manydesks.providers"


class Providers:
    """Those there are at this moment; a built-in's name cannot be taken by a stranger."""

    def __init__(self) -> None:
        self._all: dict[str, Descriptor] | None = None

    def names(self) -> list[str]:
        return sorted(self._found())

    def get(self, name: str) -> Descriptor:
        # a runner needs one of them, and soon: the others are not imported, nor entry points read, for one of ours
        found = members.named(providers, name, "PROVIDER", Descriptor) or self._found().get(name)
        if found is None:
            raise BadInput(reason=f"there is no provider '{name}'; there are {', '.join(self.names())}")
        return found

    def _found(self) -> dict[str, Descriptor]:
        if self._all is None:
            ours = {found.name: found for found in members.built_in(providers, "PROVIDER", Descriptor)}
            self._all = {found.name: found for found in members.strangers(GROUP, Descriptor)} | ours
        return self._all
