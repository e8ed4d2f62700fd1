"""A whole number on the command line."""

from __future__ import annotations

from typing import Any

import click


class Whole(click.IntRange):
    """Between two bounds, both included; whatever else is given is told what is allowed."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = None
        if number is None or not self._holds(number):
            self.fail(f"{str(value)[:60]!r} is not a whole number{self._bounds()}.", param, ctx)
        return number

    def _describe_range(self) -> str:
        """In the help."""
        return "" if self.min is None else super()._describe_range()

    def _holds(self, number: int) -> bool:
        return (self.min is None or number >= self.min) and (self.max is None or number <= self.max)

    def _bounds(self) -> str:
        if self.min is None:
            return ""
        return f" of {self.min} or more" if self.max is None else f" from {self.min} to {self.max}"


#: the number of a row: they are counted in 64 bits; a larger one could not even be asked for
NUMBER = Whole(0, 2**63 - 1)
