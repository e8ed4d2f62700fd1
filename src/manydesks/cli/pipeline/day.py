"""A day on the command line."""

from __future__ import annotations

import click


def day(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A callback: `2026-01-31`, a UTC day."""
    from manydesks.insights.published import is_day

    if value is not None and not is_day(value):
        raise click.BadParameter(f"'{value}' is not a day such as 2026-01-31.", context, parameter)
    return value
