"""`manydesks responses`: answers that did not reach their readers, and what to do with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from manydesks.cli import exits
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import NUMBER, Whole
from manydesks.cli.output import Column, Output
from manydesks.cli.quantity import count, moment
from manydesks.cli.response import shown
from manydesks.cli.text import harmless, one_line
from manydesks.domain.errors import BadInput, UnknownResponse

COLUMNS = (
    Column("id", right=True),
    Column("state"),
    Column("to", flexible=True),
    Column("agent"),
    Column("stored"),
    Column("attempts", right=True),
    Column("reason", flexible=True),
    Column("text", flexible=True),
)


@click.group(cls=Group)
def responses() -> None:
    """Answers on their way out: list them, send them again, give them up."""


@responses.command("list")
@click.option("--dead", is_flag=True, help="Those that could not be delivered.")
@click.option("--unsure", is_flag=True, help="Those of which nobody knows whether they arrived.")
@click.option("--held", is_flag=True, help="Those whose channel is not there.")
@click.option("--expired", is_flag=True, help="Those that became too old.")
@click.option("--pending", is_flag=True, help="Those that wait for their turn, or for a client to fetch them.")
@click.option("--channel", metavar="NAME", help="Only those for this channel.")
@click.option("--after", type=NUMBER, default=0, metavar="NO", help="Only those above this number.")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True, help="How many at most.")
@pass_invocation
def list_responses(invocation: Invocation, /, channel: str | None, after: int, limit: int, **states: bool) -> None:
    """List answers, oldest first.

    Without one of the states: all that may need you, that is dead, unsure, held and expired ones.
    """
    from manydesks.domain.states import ResponseState
    from manydesks.store.outgoing import TROUBLE

    wanted = [ResponseState[name.upper()] for name, given in states.items() if given] or list(TROUBLE)
    found, out = invocation.reader.responses(wanted, channel=channel, after=after, limit=limit), invocation.out
    if out.json:
        out.value(found)
        return
    if not found:
        out.note("There are no such answers." if any(states.values()) else "No answer waits for you.")
        return
    out.table(COLUMNS, (_row(response, out) for response in found))
    if len(found) == limit:
        out.note(f"There may be more: --after {found[-1]['id']} shows what follows.")


def _row(response: dict[str, Any], out: Output) -> tuple[object, ...]:
    return (
        response["id"],
        response["status"],
        f"{response['sender']} ({_line(response)})",
        response["agent"],
        moment(response["createdAt"]),
        response["attempts"],
        response["reason"],
        "(erased)" if response["text"] is None else response["text"],
    )


def _line(response: dict[str, Any]) -> str:
    return "/".join(filter(None, (response["channel"], response["instance"])))


@responses.command()
@click.argument("id")
@pass_invocation
def show(invocation: Invocation, id: str) -> None:
    """Show one answer in full."""
    found, out = invocation.reader.response(_number(id)), invocation.out
    if found is None:
        raise UnknownResponse(response=id[:40])
    if out.json:
        out.value(found)
        return
    for name, words in _lines(found, out):
        out.line(f"{name:<10}{words}".rstrip())
    out.line()
    out.line(harmless(shown(found, invocation.home.path)))


def _lines(found: dict[str, Any], out: Output) -> Iterator[tuple[str, str]]:
    yield "response", str(found["id"])
    yield "state", out.status(found["status"]) + f"  since {moment(found['updatedAt'])}"
    yield "to", one_line(f"{found['sender']} ({_line(found)}, {found['platformId']})")
    yield "agent", one_line(found["agent"] or "the office")
    if found["messageId"]:
        yield "answers", one_line(found["messageId"])
    if found["traceId"]:
        yield "trace", one_line(found["traceId"])
    yield "stored", moment(found["createdAt"])
    yield "attempts", str(found["attempts"])
    if found["receipts"]:
        yield "out", count(len(found["receipts"]), "piece")
    if found["reason"]:
        yield "reason", one_line(found["reason"])


@responses.command()
@click.argument("id")
@pass_invocation
def resend(invocation: Invocation, id: str) -> None:
    """Send a dead, unsure or expired answer again.

    Of an unsure one nobody knows whether it arrived: you decide that it may arrive twice. Pieces of a long answer that
    are out for sure are not sent again.
    """
    result, out = invocation.door.ask("response_resend", id=_number(id)), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"Answer {one_line(id)} is pending again.")


@responses.command()
@click.argument("id")
@pass_invocation
def ack(invocation: Invocation, id: str) -> None:
    """Say that an answer has been read.

    For clients that fetch, such as those of `api`, and for an answer that you know has arrived: it is not given or sent
    again. Saying so twice is no error.
    """
    number = _number(id)
    result, out = invocation.door.ask("response_ack", id=number), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"Answer {number} {'is acknowledged' if result['changed'] else 'was acknowledged before'}.")


@responses.command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def drop(invocation: Invocation, id: str, yes: bool) -> int:
    """Give up an answer that is not out; it ends as withdrawn."""
    number = _number(id)
    if not consent(invocation, f"Drop the answer {number}?", yes=yes):
        return exits.FAILED
    result, out = invocation.door.ask("response_drop", id=number), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"Answer {number} dropped.")
    return exits.OK


def _number(id: str) -> int:
    if not id.isascii() or not id.isdigit() or len(id) > 18:
        raise BadInput(f"'{id[:40]}' is not the number of an answer; `manydesks responses list` shows them.")
    return int(id)
