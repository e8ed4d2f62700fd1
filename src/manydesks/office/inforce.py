"""The settings that count now. They may be changed while the office is open: whoever needs one asks at that moment."""

from __future__ import annotations

from manydesks.settings.model import Settings


class InForce:
    """Taken whole: nobody ever sees half of the old settings and half of the new ones."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
