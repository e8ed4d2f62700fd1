"""`manydesks answer`: a person's answer to an agent's question."""

from __future__ import annotations

import click

from manydesks.cli import complete
from manydesks.cli.body import read_body
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.sender import login_name
from manydesks.cli.text import one_line


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.questions)
@click.argument("answer", metavar="OPTION|TEXT")
@click.option("--text", "own_words", is_flag=True, help="Take the answer as text, also if it names an option.")
@pass_invocation
def answer(invocation: Invocation, id: str, answer: str, own_words: bool) -> None:
    """Answer an agent's question.

    `manydesks questions` shows the ids. The answer is one of the options, by its number or its words, or any other
    TEXT; a number that no option has is refused, unless with --text. A TEXT of - reads standard input. The agent gets
    it at once if it still waits, else as a message.
    """
    result = invocation.door.ask("answer", id=id, answer=read_body(answer), by=login_name(), own_words=own_words)
    out = invocation.out
    if out.json:
        out.value(result)
    else:
        chosen = "" if result["selectedOption"] is None else f" ({one_line(result['selectedOption'])})"
        # the office's own questions are answered to the office
        effect = result.get("effect") or f"{result['agent']} is told"
        out.line(f"{one_line(id)} is answered{chosen}; {one_line(effect)}.")
