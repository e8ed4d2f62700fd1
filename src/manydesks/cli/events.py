"""`manydesks events`: the ledger, as it was and as it grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import NUMBER
from manydesks.cli.output import dumps, plain
from manydesks.cli.quantity import moment
from manydesks.cli.text import one_line
from manydesks.domain.errors import BadInput, UnknownTrace

PAGE = 500
#: a wake-up lost between a look and a wait costs no more than this
LOOK_AGAIN_SECONDS = 1.0


@click.command(cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now, until Ctrl-C.")
@click.option("--type", "kinds", metavar="KIND", multiple=True, help="Only this kind; may be given several times.")
@click.option("--trace", "trace", metavar="ID", help="Only those of one trace.")
@click.option("--after", type=NUMBER, metavar="SEQ", help="Only those after this number.")
@pass_invocation
def events(invocation: Invocation, follow: bool, kinds: tuple[str, ...], trace: str | None, after: int | None) -> None:
    """Show what happened, from the ledger.

    All kept events, oldest first; with -f only new ones, unless --after says from where. With --json it is one array;
    with -f, where an array would never end, one object a line.
    """
    _check(kinds)
    reader, out = invocation.reader, invocation.out
    trace = _trace(invocation, trace)
    if after is None:
        after = reader.head() if follow else reader.first() - 1
    if not follow:
        found = _pages(invocation, after, kinds, trace)
        if not out.json:
            for event in found:
                out.line(event_line(event))
            return
        # Written as it is read: the ledger may be larger than the memory.
        separator = "["
        for event in found:
            out.line(separator + dumps(event))
            separator = ","
        out.line("[]" if separator == "[" else "]")
        return
    while True:
        # Taken before looking: what is committed during the look is seen by the next one, filtered or not.
        head = reader.head()
        for event in _pages(invocation, after, kinds, trace):
            out.line(dumps(event) if out.json else event_line(event))
            after = event["seq"]
        after = max(after, head)
        out.flush()
        reader.wait(LOOK_AGAIN_SECONDS)


def _pages(
    invocation: Invocation, after: int, kinds: tuple[str, ...], trace: str | None
) -> Iterator[Mapping[str, Any]]:
    """All events after that number, a page in memory at a time."""
    while page := invocation.reader.events(after, PAGE, kinds=list(kinds) or None, trace=trace):
        yield from page
        after = page[-1]["seq"]


def _trace(invocation: Invocation, id: str | None) -> str | None:
    """The trace that is meant, also by one of its messages. One that nobody knows would match nothing, silently."""
    if id is None:
        return None
    reader = invocation.reader
    found = reader.trace(id)
    if found is not None:
        return str(found["traceId"])
    # its messages may be pruned, and its events kept
    if not reader.events(reader.first() - 1, 1, trace=id):
        raise UnknownTrace(trace=id)
    return id


def _check(kinds: tuple[str, ...]) -> None:
    """An unknown kind would match nothing, for ever and silently."""
    from difflib import get_close_matches

    from manydesks.domain.event import KINDS

    for kind in kinds:
        if kind not in KINDS:
            near = get_close_matches(kind, KINDS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(KINDS)}."
            raise BadInput(f"There is no kind of event '{kind}'; {hint}")


def event_line(event: Mapping[str, Any]) -> str:
    """An event on one line: number, time, kind, who and what, then its data."""
    subject = " ".join(one_line(str(event[key])) for key in ("agent", "message", "run") if event[key])
    data = " ".join(f"{one_line(key)}={plain(value)}" for key, value in (event["data"] or {}).items())
    return f"{event['seq']:>8}  {moment(event['at'])}  {one_line(event['kind']):<18}  {subject}  {data}".rstrip()
