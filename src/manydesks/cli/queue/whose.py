"""The messages of one agent: `--agent`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from manydesks.cli import complete
from manydesks.cli.invocation import Invocation
from manydesks.domain.errors import UnknownAgent

agent_option = click.option("--agent", metavar="AGENT", shell_complete=complete.agents, help="Only those of one agent.")


def refuse_unknown(invocation: Invocation, agent: str | None, found: Sequence[Any]) -> None:
    """A name that nobody has is a mistake, not an empty list; one who left may still have messages."""
    if agent is None or found:
        return
    known = [row["id"] for row in invocation.reader.agents()]
    if agent in known:
        return
    from difflib import get_close_matches

    near = get_close_matches(agent, known, n=1)
    raise UnknownAgent(agent=agent, nearest=f" (did you mean '{near[0]}'?)" if near else "")
