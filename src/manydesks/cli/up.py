"""`manydesks up`: opens the office."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.opening import open_in_background

if TYPE_CHECKING:
    from manydesks.office.surface import Premises, Surface


@click.command(cls=Command)
@click.option("--detach", is_flag=True, help="Run in the background; return when the office answers.")
@click.option("--demo", is_flag=True, help="Open an example office, and play a message in it.")
@pass_invocation
def up(invocation: Invocation, detach: bool, demo: bool) -> int:
    """Open the office.

    It stays in the foreground until Ctrl-C or `manydesks down`. With --detach it goes on in the background, and what it
    says goes to logs/host.log in the office's folder, which is kept small: older parts are host.log.1 to host.log.3.

    A new office has one agent, which needs no key: it only rehearses. If a key, or a Claude Code that is logged in, is
    found, you are asked once whether to use it; without a terminal it is only said how. Nothing is spent unasked.

    With --demo the office is an example: a product team that rehearses, in ~/.manydesks-demo unless another folder is
    named, and never one with agents of its own.
    """
    from manydesks.cli.demo import choose_home, furnish
    from manydesks.cli.offer import offer
    from manydesks.office.lock import running_host

    if demo:
        choose_home(invocation)
    # beside an office that runs nothing is asked or changed: a second one is refused below
    if running_host(invocation.home) is None:
        (furnish if demo else offer)(invocation)
    return _detached(invocation, demo=demo) if detach else _foreground(invocation, demo=demo)


def _foreground(invocation: Invocation, *, demo: bool) -> int:
    from manydesks.office.host import run_host

    out = invocation.out

    def announce(office: dict[str, Any]) -> None:
        out.value(office)
        out.flush()  # whoever reads it waits for it; the office goes on for days

    if demo:
        from manydesks.cli.demo import play_when_open

        play_when_open(invocation)
    return run_host(invocation.home, announce=announce if out.json else None, surfaces=[api])


def api(premises: Premises) -> Surface:
    """Loaded when the office is about to open, by then for good."""
    from manydesks.api.surface import ApiSurface

    return ApiSurface(premises)


def _detached(invocation: Invocation, *, demo: bool) -> int:
    opened, out = open_in_background(invocation), invocation.out
    if not out.json:
        out.line(f"The office is up (process {opened.pid}).")
    about: dict[str, Any] = {"pid": opened.pid, "log": str(opened.log)}
    if demo:
        from manydesks.cli.demo import play

        about["responses"] = [answer.as_json() for answer in play(invocation)]
    if out.json:
        out.value(about)
    return exits.OK
