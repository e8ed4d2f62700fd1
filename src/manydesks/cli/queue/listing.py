"""`manydesks queue list`: messages, oldest first, page by page."""

from __future__ import annotations

from pathlib import Path

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import NUMBER, Whole
from manydesks.cli.output import Column
from manydesks.cli.quantity import moment
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.queue.whose import agent_option, refuse_unknown
from manydesks.domain.errors import BadInput
from manydesks.domain.states import MessageState, word

COLUMNS = (
    Column("no", right=True),
    Column("id"),
    Column("agent"),
    Column("from", flexible=True),
    Column("state"),
    Column("since"),
    Column("reason", flexible=True),
    Column("text", flexible=True),
)

STATES = {word(state): state for state in MessageState}


@click.command("list", cls=Command)
@agent_option
@click.option("--state", metavar="STATE", help="Only those in one state, such as pending (of a file: ready) or dead.")
@click.option("--limit", type=Whole(1, 10_000), default=100, show_default=True, help="At most so many.")
@click.option("--after", type=NUMBER, default=0, metavar="NO", help="Only those after this number.")
@file_options
@pass_invocation
def list_messages(
    invocation: Invocation,
    agent: str | None,
    state: str | None,
    limit: int,
    after: int,
    file: Path | None,
    queue: str | None,
) -> None:
    """List messages, oldest first.

    The first column numbers them; the next page is what comes --after the last number shown.
    """
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        jobs.list_jobs(invocation, file, queue, state=state, limit=limit, after=after)
        return
    if state is not None and state not in STATES:
        raise BadInput(f"A message's state is one of {', '.join(STATES)}, not {state!r:.60}.")
    wanted = None if state is None else STATES[state]
    found = invocation.reader.messages(agent=agent, state=wanted, after=after, limit=limit)
    refuse_unknown(invocation, agent, found)
    out = invocation.out
    if out.json:
        out.value(found)
        return
    if not found:
        out.note("There are no such messages.")
        return
    out.table(
        COLUMNS,
        (
            (
                row["id"],
                *(row[key] for key in ("messageId", "agent", "sender", "status")),
                moment(row["updatedAt"]),
                None if row["status"] == "completed" else row["reason"],
                row["text"],
            )
            for row in found
        ),
    )
    if len(found) == limit:
        out.note(f"There may be more: --after {found[-1]['id']} shows the next page.")
