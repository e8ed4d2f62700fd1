"""`manydesks service`: the office after a reboot."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from manydesks.cli import exits
from manydesks.cli.closing import close_office
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.opening import READY_SECONDS, command_of, wait_for_office
from manydesks.cli.seconds import timeout_option
from manydesks.cli.sender import login_name
from manydesks.cli.text import one_line

if TYPE_CHECKING:
    from manydesks.office.service.base import Plan, Service


@click.group(cls=Group)
def service() -> None:
    """Keep the office open from the start of the machine on."""


@service.command()
@click.option("--print", "only_print", is_flag=True, help="Print the service's file, and change nothing.")
@timeout_option(default=30, help="How long to wait for the end of an office that runs already.")
@pass_invocation
def install(invocation: Invocation, only_print: bool, timeout: float) -> None:
    """Make the office a service of yours: of systemd on Linux, of launchd on macOS.

    It starts with the machine, or when you log in, and again after a failure; `manydesks down` closes it until the next
    start. An office that runs already is closed and opened again as the service. Repeat it after ManyDesks or a program
    that agents need has moved: the service names this Python and has this PATH. It holds no secret.
    """
    found, out = find(invocation), invocation.out
    plan = _plan(invocation)
    if only_print:
        if out.json:
            out.value({"file": str(found.file), "text": found.text(plan)})
        else:
            out.answer(found.text(plan))
        return
    invocation.home.prepare()
    if not found.standing().active:
        close_office(invocation, timeout)
    for sentence in found.install(plan):
        out.note(sentence)
    host = wait_for_office(invocation, READY_SECONDS)
    if out.json:
        out.value({"service": found.name, "file": str(found.file), "pid": host["pid"]})
    else:
        out.line(f"The office is the service {found.name} (process {host['pid']}): {one_line(str(found.file))}")


@service.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove(invocation: Invocation, yes: bool) -> int:
    """Close the office, and let it be a service no longer.

    Nothing of the office itself is removed; `manydesks up` opens it again.
    """
    found, out = find(invocation), invocation.out
    there = found.file.exists()
    if there:
        if not consent(invocation, f"Close the office and remove the service {found.name}?", yes=yes):
            return exits.FAILED
        found.remove()
    if out.json:
        out.value({"service": found.name, "removed": there})
    elif there:
        out.line(f"The service {found.name} is removed; `manydesks up` opens the office.")
    else:
        out.note("There was no such service.")
    return exits.OK


@service.command()
@pass_invocation
def status(invocation: Invocation) -> int:
    """Show whether the office is a service, and whether that runs.

    The exit code is 0 only if it does.
    """
    found, out = find(invocation), invocation.out
    standing = found.standing()
    if out.json:
        out.value({"service": found.name, "file": str(found.file), **asdict(standing)})
    elif not standing.installed:
        out.line("The office is no service; `manydesks service install` makes it one.")
    else:
        out.line(f"service  {found.name}")
        out.line(f"file     {one_line(str(found.file))}")
        out.line(f"state    {out.status('up' if standing.active else 'down')}")
        out.line(f"starts   {_when(standing.enabled, standing.lingers)}")
    return exits.OK if standing.installed and standing.active else exits.FAILED


def _when(enabled: bool, lingers: bool | None) -> str:
    if not enabled:
        return "never by itself"
    return "with the machine" if lingers else "when you log in"


def find(invocation: Invocation) -> Service:
    """The service of this home, there or not."""
    from manydesks.office.service.manager import service_of

    return service_of(invocation.home, invocation.environ, person=login_name())


def _plan(invocation: Invocation) -> Plan:
    from manydesks.office.service.manager import plan_for
    from manydesks.settings.load import load_settings

    settings = load_settings(invocation.home, invocation.environ)
    return plan_for(invocation.home, settings, invocation.environ, command_of(invocation.home.path))
