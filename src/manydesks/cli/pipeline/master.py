"""`--master`, the same for every command of the pipeline that starts Spark."""

from __future__ import annotations

from typing import Any, TypeVar

import click

F = TypeVar("F", bound="click.Command | Any")

_KEY = "manydesks.pipeline.master"


def master_option(command: F) -> F:
    """Adds the option. It goes to `open_settings` and so is no argument of the command."""
    words = "Where Spark runs, in the place of the setting pipeline.master."
    return click.option("--master", metavar="URL", expose_value=False, callback=_keep, help=words)(command)


def chosen_master() -> str | None:
    """What was given to the command that runs; None: nothing."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_KEY)


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    from manydesks.settings.problems import check

    found = check({"pipeline": {"master": value}})
    if isinstance(found, list):
        raise click.BadParameter(f"{found[0].words}.", context, parameter)
    context.meta[_KEY] = value
