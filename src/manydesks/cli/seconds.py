"""A time limit on the command line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

#: a week; longer waits are a schedule's work
LONGEST = 7 * 24 * 3600


def timeout_option(*, default: int, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--timeout SECONDS`, from 0 to a week, fractions allowed."""
    return click.option(
        "--timeout", metavar="SECONDS", type=_Seconds(0, LONGEST), default=default, show_default=True, help=help
    )


class _Seconds(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if math.isnan(seconds):  # it passes every comparison of a range, and would never be over
            self.fail(f"'{value}' is not a number of seconds.", param, ctx)
        return float(super().convert(seconds, param, ctx))
