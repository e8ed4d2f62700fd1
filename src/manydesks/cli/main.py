"""`manydesks`: the root command, and the table of all the others.

A command's module is imported when the command is used, so `manydesks --help` costs click and nothing else.
"""

from __future__ import annotations

import click

from manydesks import __version__
from manydesks.cli.root import Entry, Root

#: name → where it lives and its line in `--help`; a test holds each line against the command's own docstring
COMMANDS = {
    "up": Entry("manydesks.cli.up:up", "Open the office."),
    "down": Entry("manydesks.cli.down:down", "Close the office, letting running work finish."),
    "status": Entry("manydesks.cli.status:status", "Show whether the office is up, and its queue."),
    "send": Entry("manydesks.cli.send:send", "Send a message to an agent."),
    "trace": Entry("manydesks.cli.trace:trace", "Show all that followed from one message, as a tree."),
    "run": Entry("manydesks.cli.run:run", "Take out what an agent did in a run."),
    "agent": Entry("manydesks.cli.agent:agent", "Add, show, list and remove agents."),
    "secret": Entry("manydesks.cli.secret:secret", "Keep the keys that agents need, out of their reach."),
    "doctor": Entry("manydesks.cli.doctor:doctor", "Look at everything that the office needs, and say what to do."),
    "questions": Entry("manydesks.cli.questions:questions", "List the questions of agents that wait for an answer."),
    "answer": Entry("manydesks.cli.answer:answer", "Answer an agent's question."),
    "queue": Entry("manydesks.cli.queue:queue", "Look into the queue, and deal with what is in it."),
    "events": Entry("manydesks.cli.events:events", "Show what happened, from the ledger."),
    "pipeline": Entry("manydesks.cli.pipeline:pipeline", "The office's history on Spark."),
}


@click.group(cls=Root, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="manydesks", message="%(prog)s %(version)s")
def cli() -> None:
    """Teams of specialised AI agents for a one-person company."""


def main() -> None:
    """The entry point of the installed command; ends the process with the command's exit code."""
    cli.main(prog_name="manydesks")
