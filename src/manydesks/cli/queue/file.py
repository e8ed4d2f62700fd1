"""`--file jobs.db --queue NAME`: the same commands for a jobs file, without an office."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from manydesks.domain.errors import BadInput

if TYPE_CHECKING:
    from manydesks.queue import Queue
    from manydesks.queue.look import Glance, Known

Function = TypeVar("Function", bound=Callable[..., Any])


class JobsPath(click.ParamType[Path]):
    """A file that is there: a look must not make one."""

    name = "path"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        if not path.is_file():
            raise BadInput(f"There is no jobs file {str(value)!r}.")
        return path


def file_options(function: Function) -> Function:
    """Adds `--file` and `--queue`."""
    queue = click.option("--queue", metavar="NAME", help="Which queue of that file, if it has several.")
    file = click.option("--file", type=JobsPath(), metavar="PATH", help="A jobs file of the queue instead of messages.")
    return file(queue(function))


def refuse_queue_alone(file: Path | None, queue: str | None, agent: str | None = None) -> None:
    """Options of the one are no options of the other."""
    if file is None and queue is not None:
        raise BadInput("--queue names a queue of a jobs file: give that with --file.")
    if file is not None and agent is not None:
        raise BadInput("A jobs file has queues, not agents: name one with --queue.")


@contextmanager
def looked_at(file: Path, queue: str | None) -> Iterator[Queue | Glance]:
    """The queue that is meant, as it stands, if it cannot be written."""
    from manydesks.queue.look import Glance

    known = _which(file, queue)
    if os.access(file, os.W_OK) and os.access(file.parent, os.W_OK):
        with opened(file, known.name) as q:
            yield q
    else:
        with Glance(file, known.name) as glance:
            yield glance


@contextmanager
def opened(file: Path, queue: str | None) -> Iterator[Queue]:
    """The queue that is meant, with the terms that it has."""
    from manydesks.queue import Queue

    known = _which(file, queue)
    with Queue(file, known.name, max_attempts=known.max_attempts) as q:
        yield q


def _which(file: Path, queue: str | None) -> Known:
    from manydesks.queue.look import queues_of

    known = {row.name: row for row in queues_of(file)}
    if queue is None and len(known) == 1:
        (queue,) = known
    if queue not in known:
        there = ", ".join(f"'{name}'" for name in known) or "none yet"
        which = "Say which queue with --queue" if queue is None else f"There is no queue {queue!r} in {file}"
        raise BadInput(f"{which}; there are: {there}.")
    return known[queue]


def job_id(given: str) -> int:
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise BadInput(f"A job's id is a whole number, not {given!r:.60}; `manydesks queue list --file …` shows them.")
    return int(given)
