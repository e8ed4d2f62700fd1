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
    limits = click.FloatRange(0, LONGEST)
    return click.option(
        "--timeout", metavar="SECONDS", type=limits, default=default, show_default=True, callback=_a_number, help=help
    )


def _a_number(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if math.isnan(value):  # it passes every comparison of a range, and would never be over
        raise click.BadParameter(f"'{value}' is not a number of seconds.", ctx=ctx, param=param)
    return value
