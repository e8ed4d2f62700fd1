"""What a shell offers for the word that is being typed. Silent: an office that cannot be read offers nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from manydesks.cli.invocation import Invocation
from manydesks.domain.errors import ManyDesksError

if TYPE_CHECKING:
    from manydesks.store.reader import Reader

Completer = Callable[[click.Context, click.Parameter, str], list[str]]

#: of messages, the newest are offered
RECENT = 50


def _offering(find: Callable[[Reader], Iterable[Any]]) -> Completer:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            # the reader alone: a door would load what asks the office
            from manydesks.store.reader import Reader

            home = ctx.ensure_object(Invocation).home
            reader = Reader(home.office_db, sockets=home.run)
            try:
                return [str(word) for word in find(reader) if str(word).startswith(incomplete)]
            finally:
                reader.close()
        except (ManyDesksError, OSError):
            return []

    return complete


def _ids(rows: Iterable[dict[str, Any]], key: str = "id") -> list[str]:
    return [str(row[key]) for row in rows]


def _people(reader: Reader) -> list[str]:
    teams = _ids(reader.teams())
    return [*_ids(reader.agents()), *teams, *(f"#{team}" for team in teams)]


def _logged(reader: Reader) -> list[str]:
    return [*_ids(reader.agents()), *reader.channels()]


agents = _offering(lambda reader: _ids(reader.agents()))
teams = _offering(lambda reader: _ids(reader.teams()))
#: whom a message can be sent to
people = _offering(_people)
#: what has a log
logged = _offering(_logged)
messages = _offering(lambda reader: reader.recent(RECENT))
dead = _offering(lambda reader: _ids(reader.dead(limit=RECENT), "messageId"))
held = _offering(lambda reader: _ids(reader.held(limit=RECENT), "messageId"))
stuck = _offering(lambda reader: _ids([*reader.dead(limit=RECENT), *reader.held(limit=RECENT)], "messageId"))
questions = _offering(lambda reader: _ids(reader.questions(RECENT), "questionId"))
