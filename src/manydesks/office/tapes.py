"""Runs as tapes: what a desk wrote in one run, for the provider `rehearsal` to play back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manydesks.domain.errors import BadInput, UnknownRun
from manydesks.domain.mail import Collected
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.tape import lines_of
from manydesks.settings.home import Home
from manydesks.store.reader import Reader


def tape_of(home: Home, reader: Reader, id: str) -> list[dict[str, Any]]:
    """The lines of a run, or of a message's last run. Reads only; the office may be at work meanwhile.

    Raises `UnknownRun`, `BadInput` if nothing of it is left, `MailboxRefused` for a file that no desk may write.
    """
    found = reader.run(id)
    if found is None:
        raise UnknownRun(run=id)
    folder = home.session(found["agent"], found["session"])
    lines = lines_of(_pages(HostMailbox(folder, session=found["session"], agent=found["agent"])), found["id"])
    if not lines:
        raise BadInput(f"The desk wrote nothing in the run '{found['id']}', or its session's files are gone.")
    return lines


def _pages(mailbox: HostMailbox) -> Iterator[Collected]:
    epoch, after = None, 0
    while (page := mailbox.collect(epoch, after)) is not None:
        yield page
        if not page.more:
            return
        epoch, after = page.epoch, page.last_seq
