"""Commands and groups that take `--home` and `--json` wherever a person writes them.

A new command is `@click.command(cls=Command)`, or a member of a `@click.group(cls=Group)`, whose members are such
commands by themselves. It takes its `Invocation` by `@pass_invocation`, has a line in the table of `main.py` unless it
is a member, and returns its exit code or None.
"""

from __future__ import annotations

from typing import Any

import click

from manydesks.cli.invocation import Invocation

pass_invocation = click.make_pass_decorator(Invocation)


def _take_home(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(Invocation).home_option = value


def _take_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Invocation).json = True


def _common_options() -> list[click.Parameter]:
    # Eager, so that an error in any other option is already told in the form that was asked for.
    return [
        click.Option(
            ["--home"],
            metavar="DIR",
            is_eager=True,
            expose_value=False,
            callback=_take_home,
            help="The office's folder  [default: $MANYDESKS_HOME, else ~/.manydesks]",
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_take_json,
            help="Print one JSON value.",
        ),
    ]


class Command(click.Command):
    """A command that also takes `--home` and `--json`; the innermost one given wins."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())


class Group(click.Group):
    """A group whose members are `Command`s; `manydesks queue --json status` works too."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}."
            ctx.fail(f"There is no command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)
