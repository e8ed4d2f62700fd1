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
    "restart": Entry("manydesks.cli.restart:restart", "Close the office, and open it again in the background."),
    "status": Entry("manydesks.cli.status:status", "Show whether the office is up, and its queue."),
    "send": Entry("manydesks.cli.send:send", "Send a message to an agent."),
    "chat": Entry("manydesks.cli.chat:chat", "Talk with an agent, or with a team."),
    "trace": Entry("manydesks.cli.trace:trace", "Show all that followed from one message, as a tree."),
    "run": Entry("manydesks.cli.run:run", "Take out what an agent did in a run."),
    "agent": Entry("manydesks.cli.agent:agent", "Add, show, change and remove agents."),
    "team": Entry("manydesks.cli.team:team", "Put agents into teams, and look into their rooms."),
    "secret": Entry("manydesks.cli.secret:secret", "Keep the keys that agents need, out of their reach."),
    "token": Entry("manydesks.cli.token:token", "The token by which programs are let in."),
    "doctor": Entry("manydesks.cli.doctor:doctor", "Look at everything that the office needs, and say what to do."),
    "questions": Entry("manydesks.cli.questions:questions", "List the questions of agents that wait for an answer."),
    "answer": Entry("manydesks.cli.answer:answer", "Answer an agent's question."),
    "responses": Entry(
        "manydesks.cli.responses:responses", "Answers on their way out: list them, send them again, give them up."
    ),
    "queue": Entry("manydesks.cli.queue:queue", "Look into the queue, and deal with what is in it."),
    "usage": Entry("manydesks.cli.usage:usage", "Show what agents have used, and what is left."),
    "events": Entry("manydesks.cli.events:events", "Show what happened, from the ledger."),
    "service": Entry("manydesks.cli.service:service", "Keep the office open from the start of the machine on."),
    "logs": Entry("manydesks.cli.logs:logs", "Show the log of the office, an agent, a channel or a run."),
    "hook": Entry("manydesks.cli.hook:hook", "Look at the plugins that see messages and events."),
    "completion": Entry("manydesks.cli.completion:completion", "Print what lets a shell complete commands and names."),
    "forget": Entry("manydesks.cli.forget:forget", "Remove the text of a message, and of the answers to it."),
    "backup": Entry("manydesks.cli.backup:backup", "Make a backup of the office in one file."),
    "restore": Entry("manydesks.cli.restore:restore", "Put an office back from a backup."),
    "pipeline": Entry("manydesks.cli.pipeline:pipeline", "The office's history on Spark."),
}


@click.group(cls=Root, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="manydesks", message="%(prog)s %(version)s")
def cli() -> None:
    """Teams of specialised AI agents for a one-person company."""


def main() -> None:
    """The entry point of the installed command; ends the process with the command's exit code."""
    cli.main(prog_name="manydesks")
