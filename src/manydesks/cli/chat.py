"""`manydesks chat`: a talk with agents at the terminal."""

from __future__ import annotations

import click

from manydesks.cli import complete
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import Whole
from manydesks.cli.seconds import timeout_option
from manydesks.domain.errors import NotRunning


@click.command(cls=Command)
@click.argument("who", metavar="[AGENT|TEAM]", required=False, shell_complete=complete.people)
@click.option(
    "--history",
    type=Whole(0, 1000),
    default=10,
    show_default=True,
    metavar="N",
    help="How much of what was said before is shown at first, at a terminal.",
)
@timeout_option(default=600, help="How long the answers to one line are waited for.")
@pass_invocation
def chat(invocation: Invocation, who: str | None, history: int, timeout: float) -> int:
    """Talk with an agent, or with a team.

    Each line is a message; the answers are shown as they come, and meanwhile what the agent is writing. A team's name
    reaches its leader, '#team' everybody in its room. Without a name a line goes where it says, or to the default
    agent. When an agent asks something, the next line is the answer: an option's number, or your own words. Ctrl-C
    stops waiting, not the work; Ctrl-D leaves; /help shows more.

    Without a terminal each line of standard input is sent when the one before it has been answered. The exit code is 0
    only if all of it ended well. With --json each answer is an object on a line of its own.
    """
    from manydesks.cli.keyboard import Keyboard
    from manydesks.cli.talk import Talk

    if invocation.door.host() is None:
        raise NotRunning(home=invocation.home.path)
    if who is not None:
        _know(invocation, who)
    out = invocation.out
    keyboard = Keyboard(terminal=invocation.interactive() and out.terminal and not out.json)
    talk = Talk(invocation, keyboard, who, timeout=timeout)
    if keyboard.terminal:
        talk.show_history(history)
    return talk.run()


def _know(invocation: Invocation, who: str) -> None:
    """A name that nobody has is said before the first line, not after it."""
    from difflib import get_close_matches

    from manydesks.domain.errors import UnknownAgent

    teams = {str(row["id"]) for row in invocation.reader.teams()}
    known = {f"#{team}" for team in teams} | teams | {str(row["id"]) for row in invocation.reader.agents()}
    if who.lower() not in known:
        near = get_close_matches(who.lower(), known, n=1)
        raise UnknownAgent(agent=who, nearest=f" (did you mean '{near[0]}'?)" if near else "")
