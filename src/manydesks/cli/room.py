"""`manydesks team room`: what was said in a team's room, and a word of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from manydesks.cli import complete, exits
from manydesks.cli.body import read_body
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import Whole
from manydesks.cli.output import dumps
from manydesks.cli.quantity import moment
from manydesks.cli.sender import login_name
from manydesks.cli.text import one_line
from manydesks.domain.ids import new_id

#: a wake-up lost between a look and a wait costs no more than this
LOOK_AGAIN_SECONDS = 1.0
PAGE = 500


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.teams)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is posted from now, until Ctrl-C.")
@click.option("--limit", type=Whole(1, 10_000), default=50, show_default=True, help="How many posts, at most.")
@click.option("--post", "text", metavar="TEXT", help="Say this in the room; - reads standard input.")
@pass_invocation
def room(invocation: Invocation, id: str, follow: bool, limit: int, text: str | None) -> int:
    """Show what was said in a team's room, or say something there.

    The last posts, oldest first. With --post your text goes to every member, as it is: addresses in it are not read.
    With --json it is one array; with -f, where an array would never end, one object a line.
    """
    from manydesks.store.directory import unknown_team

    reader, out = invocation.reader, invocation.out
    known = [row["id"] for row in reader.teams()]
    if id not in known and (text is not None or not reader.posts(id, limit=1)):
        # the room of a team that was removed can still be read
        raise unknown_team(id, known)
    if text is not None:
        if follow:
            raise click.UsageError("Give --post or --follow, not both.")
        return _post(invocation, id, text)
    posts = reader.posts(id, limit=limit)
    if out.json and not follow:
        out.value(posts)
        return exits.OK
    if not posts and not follow:
        out.note(f"Nothing was said yet in the room of {one_line(id)}.")
    seen = 0
    while True:
        for post in posts:
            _show(invocation, post)
            seen = post["id"]
        out.flush()
        if not follow:
            return exits.OK
        reader.wait(LOOK_AGAIN_SECONDS)
        posts = reader.posts(id, after=seen, limit=PAGE)


def _post(invocation: Invocation, id: str, text: str) -> int:
    # Made before asking: a call repeated after a lost connection names the same message, and cannot store it twice.
    accepted = invocation.door.ask(
        "send", text=read_body(text), to=f"#{id}", sender=login_name(), message_id=new_id("chatroom")
    )
    out = invocation.out
    for notice in accepted["notices"]:
        out.note(notice)
    if out.json:
        out.value({key: accepted[key] for key in ("messageId", "traceId", "messages", "notices")})
        return exits.OK
    members = ", ".join(one_line(message["agent"]) for message in accepted["messages"])
    out.line(f"Posted in {one_line(id)}, to {members}.")
    return exits.OK


def _show(invocation: Invocation, post: Mapping[str, Any]) -> None:
    out = invocation.out
    if out.json:
        out.line(dumps(post))
        return
    who = f"@{post['fromAgent']}" if post["fromAgent"] else post["sender"]
    out.answer(post["text"], agent=f"{moment(post['createdAt'])}  {who}")
