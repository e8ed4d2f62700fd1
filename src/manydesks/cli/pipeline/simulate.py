"""`manydesks pipeline simulate`: a history that was made up."""

from __future__ import annotations

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import Whole
from manydesks.cli.pipeline.progress import progress
from manydesks.cli.quantity import count


@click.command(cls=Command)
@click.option("--events", type=Whole(100, 1_000_000_000), required=True, help="Events, about so many.")
@click.option("--agents", type=Whole(1, 99), default=8, show_default=True, help="Agents.")
@click.option("--days", type=Whole(1, 3650), default=30, show_default=True, help="Days, until yesterday.")
@click.option("--seed", type=Whole(), default=0, show_default=True, help="The same number makes the same history.")
@pass_invocation
def simulate(invocation: Invocation, events: int, agents: int, days: int, seed: int) -> None:
    """Make up a history in a home that was never used.

    It has bursts and quiet hours, retries, dead letters, hand-offs, joins and a long tail of slow runs: something to
    try the pipeline on. Nothing of it is real, and no agent runs.
    """
    from manydesks.testing.history import DAY_MS, Shape
    from manydesks.testing.simulate import simulate as make_up

    out = invocation.out
    today = invocation.clock.now() // DAY_MS * DAY_MS
    shape = Shape(events=events, agents=agents, days=days, seed=seed, begins=today - days * DAY_MS)
    with progress(out) as bar:
        made = make_up(invocation.home, shape, lambda done: bar.step("events", min(done, events), events))
    if out.json:
        out.value({"events": made, "agents": agents, "days": days, "seed": seed})
    else:
        out.line(f"{made:,} events of {count(agents, 'agent')} in {count(days, 'day')} were made up.")
