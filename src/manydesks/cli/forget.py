"""`manydesks forget`: a message's text leaves the office."""

from __future__ import annotations

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.quantity import count
from manydesks.cli.text import one_line


@click.command(cls=Command)
@click.argument("message")
@click.option("--trace", is_flag=True, help="Also everything else that followed from the same arrival.")
@click.option("--reset", is_flag=True, help="The agents who had it begin anew; their transcripts go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def forget(invocation: Invocation, message: str, trace: bool, reset: bool, yes: bool) -> int:
    """Remove the text of a message, and of the answers to it.

    It leaves the store, the desks' files, the files sent along and the logs. The lake follows with the next `manydesks
    pipeline run`; older versions of its files keep the text until `manydesks pipeline compact --vacuum --keep 0h`
    removes them. Rows and events stay, without the text. Only a message that has ended can be forgotten, and there is
    no way back. What is not removed is said.
    """
    what = "all that followed from the arrival of" if trace else "the text of, and the answers to,"
    if not consent(invocation, f"Forget {what} {one_line(message)}, for good?", yes=yes):
        return exits.FAILED
    done, out = invocation.door.ask("forget", id=message, trace=trace, reset=reset), invocation.out
    if out.json:
        out.value(done)
        return exits.FAILED if done["left"] else exits.OK
    if done["texts"]:
        files = f" and {count(len(done['files']), 'file')}" if done["files"] else ""
        out.line(f"Forgotten: {count(done['texts'], 'text')}{files} of {count(len(done['messages']), 'message')}.")
    else:
        out.line("It was forgotten before.")
    if done["alsoForgotten"]:
        out.line(f"The same text had come to others, and is forgotten there too: {', '.join(done['alsoForgotten'])}.")
    if done["logs"]:
        out.line(f"Blotted out in {', '.join(done['logs'])}.")
    if done["reset"]:
        out.line(f"Begun anew: {', '.join(done['reset'])}.")
    if done["mayQuote"]:
        out.note(f"Not removed: {count(len(done['mayQuote']), 'message')} that may quote it "
                 f"({', '.join(done['mayQuote'][:3])}{', …' if len(done['mayQuote']) > 3 else ''}); "
                 "--trace forgets what followed from it.")  # fmt: skip
    if done["transcripts"]:
        out.note(f"Not removed: what the provider of {', '.join(done['transcripts'])} keeps of the conversation by "
                 "itself; --reset begins it anew.")  # fmt: skip
    out.note("Not removed: what agents wrote into their workspaces, and backups. The lake lets go of it with "
             "`manydesks pipeline run`; older versions of the lake's files keep it until "
             "`manydesks pipeline compact --vacuum --keep 0h` after that.")  # fmt: skip
    if done["left"]:
        out.error(f"Not all of it is gone: {done['left']}.")
        return exits.FAILED
    return exits.OK
