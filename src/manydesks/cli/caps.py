"""What is left of caps today, for commands that show an agent or the office."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from manydesks.cli.invocation import Invocation

if TYPE_CHECKING:
    from manydesks.domain.budget import Budget


def budget(invocation: Invocation) -> tuple[Budget, str]:
    """What the settings allow, and which day it is there. Raises `SettingsError`."""
    from manydesks.domain.budget import day_of
    from manydesks.office.budget import budget_of
    from manydesks.settings.load import load_settings

    found = budget_of(load_settings(invocation.home, invocation.environ))
    return found, day_of(invocation.clock.now(), found.time_zone)


def today(invocation: Invocation) -> list[dict[str, Any]]:
    """Every cap with what is spent, reserved and left of it."""
    allowed, day = budget(invocation)
    return invocation.reader.caps(allowed, day)


def amount(unit: str, value: float) -> str:
    """Of one unit, as people read it."""
    if unit == "usd":
        return f"${value:,.2f}"
    return f"{value:,} {unit.removesuffix('s') if value == 1 else unit}"


def sentence(line: dict[str, Any]) -> str:
    """One cap in words."""
    unit = line["unit"]
    reserved = f", {amount(unit, line['reserved'])} reserved" if line["reserved"] else ""
    spent = amount(unit, line["spent"]) if unit == "usd" else f"{line['spent']:,}"
    return f"{spent} of {amount(unit, line['cap'])} spent{reserved}"
