"""The settings that count now. They may be changed while the office is open: whoever needs one asks at that moment."""

from __future__ import annotations

from collections.abc import Callable

from manydesks.settings.model import Settings


class InForce:
    """Taken whole: nobody ever sees half of the old settings and half of the new ones."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: the address that the API really listens at, whatever the settings say by now; None: it does not
        self.listening: str | None = None
        self._told: list[Callable[[Settings], None]] = []

    def tell(self, taker: Callable[[Settings], None]) -> None:
        """For whoever keeps something made from settings: called with the new ones, at once and on the loop."""
        self._told.append(taker)

    def change(self, settings: Settings) -> None:
        """These count from now on. They were checked: nobody who is told may refuse."""
        self.settings = settings
        for taker in self._told:
            taker(settings)
