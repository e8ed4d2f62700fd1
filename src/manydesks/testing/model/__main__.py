"""`python -m manydesks.testing.model [SCRIPT]`: the server as a process, which says its address as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO

import click

from manydesks.domain.errors import ManyDesksError
from manydesks.testing.model.reading import load_script
from manydesks.testing.model.record import Request
from manydesks.testing.model.script import Script
from manydesks.testing.model.server import ModelServer

#: headers whose values never reach a log
KEYS = ("x-api-key", "authorization", "proxy-authorization", "cookie")


@click.command()
@click.argument("script", required=False, type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On 127.0.0.1; 0 takes a free one.")
@click.option("--socket", type=click.Path(path_type=Path), help="A Unix socket instead of a port.")
@click.option(
    "--log", type=click.File("a", encoding="utf-8"), help="Add every request as a line of JSON, without keys."
)
def main(script: Path | None, port: int, socket: Path | None, log: IO[str] | None) -> None:
    """Play the model of SCRIPT, or echo if there is none, until a signal ends it."""
    try:
        read = load_script(script) if script is not None else Script()
        asyncio.run(_serve(read, port, socket, log))
    except ManyDesksError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        click.echo(f"error: the server could not be started: {error}", err=True)
        sys.exit(1)


async def _serve(script: Script, port: int, socket: Path | None, log: IO[str] | None) -> None:
    def note(request: Request) -> None:
        if log is not None:
            print(json.dumps(_shown(request), ensure_ascii=False), file=log, flush=True)

    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    # The log remembers for as long as somebody wants; a benchmark must not fill the memory.
    async with ModelServer(script, port=port, socket=socket, keep=0, on_request=note) as model:
        address = {"baseUrl": model.base_url, "socket": str(socket) if socket else None, "pid": os.getpid()}
        print(json.dumps(address), flush=True)
        await ended.wait()


def _shown(request: Request) -> dict[str, object]:
    return {
        "number": request.number,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "headers": {name: "…" if name in KEYS else value for name, value in request.headers.items()},
        "body": request.body,
    }


if __name__ == "__main__":
    main(prog_name="python -m manydesks.testing.model")
