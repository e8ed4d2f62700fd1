"""`manydesks restore`: an office from its backup."""

from __future__ import annotations

from pathlib import Path

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.quantity import count, moment
from manydesks.cli.text import one_line


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--paused", is_flag=True, help="No run begins before `manydesks queue resume --all`.")
@pass_invocation
def restore(invocation: Invocation, file: Path, yes: bool, paused: bool) -> int:
    """Put an office back from a backup.

    It comes into the folder that --home names, where no office may run. If something is there already it is moved
    aside, after a question, and never removed. Every file is checked first: all of it is put back, or nothing.
    """
    from manydesks.domain.errors import AlreadyRunning, BadInput
    from manydesks.office.archive import opened
    from manydesks.office.lock import running_host
    from manydesks.office.restore import is_empty
    from manydesks.office.restore import restore as put_back
    from manydesks.settings.home import reason_of

    home, out = invocation.home, invocation.out
    if (pid := running_host(home)) is not None:
        raise AlreadyRunning(home=home.path, pid=pid or "unknown")
    try:
        with opened(file) as archive:
            manifest = archive.manifest
            place = one_line(str(home.path))
            question = f"{place} is moved aside, and the office of {moment(manifest.made_at)} comes in its place?"
            if not is_empty(home) and not consent(invocation, question, yes=yes):
                return exits.FAILED
            done = put_back(home, archive, clock=invocation.clock, paused=paused)
    except OSError as error:
        raise BadInput(f"The backup {file} cannot be read: {reason_of(error)}.") from error
    found = done.restored
    if out.json:
        out.value(
            {
                "home": str(home.path),
                "madeAt": manifest.made_at,
                "seq": found.backup_seq,
                "aside": str(done.aside) if done.aside else None,
                "kept": list(done.kept),
                "waiting": found.waiting,
                "unsure": found.unsure,
                "withdrawn": found.withdrawn,
                "leftOut": len(manifest.left_out),
            }
        )
        return exits.OK
    out.line(f"{place} is the office of {moment(manifest.made_at)}, up to event {found.backup_seq:,}.")
    if done.aside is not None:
        out.line(f"What was there is in {one_line(str(done.aside))}.")
    if done.kept:
        out.line(f"Kept from there, as the backup has none: {', '.join(done.kept)}.")
    elif not manifest.secrets:
        out.note("The backup has no keys: `manydesks secret set` gives the office those that it needs.")
    if found.waiting:
        out.note(f"{count(found.waiting, 'message')} had no answer when the backup was made, and "
                 f"{'is' if found.waiting == 1 else 'are'} worked on when the office opens.")  # fmt: skip
    if found.unsure:
        out.note(f"{count(found.unsure, 'response')} may have been sent since then; `manydesks responses list` shows "
                 "what waits for your word.")  # fmt: skip
    return exits.OK
