"""A length of time in hours or days on the command line."""

from __future__ import annotations

import re

import click

_WRITTEN = re.compile(r"(\d{1,6})([hd])")


def hours(context: click.Context, parameter: click.Parameter, value: str) -> int:
    """A callback: `168h` or `7d` as a number of hours."""
    found = _WRITTEN.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"'{value}' is not a time such as 168h or 7d.", context, parameter)
    return int(found[1]) * (24 if found[2] == "d" else 1)
