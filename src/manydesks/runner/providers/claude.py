"""`claude`: the real program of that name, in a sandbox, kept warm between turns. This file only announces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.runner.program import find_program
from manydesks.runner.providers.base import Descriptor, Health, Provider, Station
from manydesks.runner.providers.claude_cli.failure import INSTALL
from manydesks.runner.providers.claude_cli.options import HELP, read_options


def _load(station: Station) -> Provider:
    from manydesks.runner.providers.claude_cli.provider import Claude

    return Claude(station)


def _check(options: Mapping[str, Any]) -> Health:
    try:
        given = read_options(options).program
    except BadInput as error:
        return Health(works=False, why=str(error))
    found = find_program("claude", given=given)
    if found is None:
        missing = f"the option `program` names no program that can be run: {given}"
        return Health(works=False, why=INSTALL if given is None else missing)
    return Health(works=True, why=f"{found}")


PROVIDER = Descriptor(
    name="claude",
    in_process=False,
    load=_load,
    endpoint="anthropic",
    options=HELP,
    read=read_options,
    program="claude",
    takes_more=True,
    prepares=True,
    check=_check,
    summary="Claude Code: works in the agent's folder with all its tools.",
)
