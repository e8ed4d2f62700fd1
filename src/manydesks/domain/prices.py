"""What tokens cost, where the owner has said so: providers that know the price say it themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Price:
    """Dollars for a million tokens of a model."""

    #: its name as the provider says it; with a * at its end, every name that begins so
    model: str
    input: float
    output: float
    #: None: as `input`
    cache_read: float | None = None
    cache_write: float | None = None

    def fits(self, model: str) -> bool:
        return model.startswith(self.model[:-1]) if self.model.endswith("*") else model == self.model

    def cost(self, *, input: int, output: int, cache_read: int = 0, cache_write: int = 0) -> float:
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        return (input * self.input + output * self.output + cache_read * read + cache_write * written) / MILLION


@dataclass(frozen=True, kw_only=True)
class Prices:
    """All that the owner has named."""

    of: Sequence[Price] = ()

    def cost(
        self,
        model: str | None,
        *,
        input: int | None,
        output: int | None,
        cache_read: int | None = None,
        cache_write: int | None = None,
    ) -> float | None:
        """None: there is no price for this model, or nobody knows how much it was."""
        if model is None or (input is None and output is None):
            return None
        # the most exact name counts
        fitting = sorted((price for price in self.of if price.fits(model)), key=lambda price: len(price.model))
        if not fitting:
            return None
        return fitting[-1].cost(
            input=input or 0, output=output or 0, cache_read=cache_read or 0, cache_write=cache_write or 0
        )


NO_PRICES = Prices()
