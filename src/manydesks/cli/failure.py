"""What a person or a program is told when a command fails: one sentence on stderr, and an exit code.

With `--json` the sentence is the `error` of one JSON object, still on stderr: stdout holds a result or nothing.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import click

from manydesks.cli import exits
from manydesks.cli.invocation import Invocation
from manydesks.domain.errors import ManyDesksError


def report(error: BaseException, invocation: Invocation, arguments: Sequence[str]) -> int:
    """Tell the error, once, and return the exit code; never raises, never returns 0."""
    refused = _settle_stdout()
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return exits.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return exits.OUTPUT_CLOSED
    # A command line that click could not read has not set the flag yet.
    invocation.json = invocation.json or _asks_for_json(arguments)
    if isinstance(error, OSError) and _is_stdouts(error, refused):
        from manydesks.cli.output import unwritten

        error = ManyDesksError(unwritten(error))
    with suppress(BrokenPipeError):
        return _tell(error, invocation)
    return exits.OUTPUT_CLOSED


def _tell(error: BaseException, invocation: Invocation) -> int:
    out = invocation.out
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not invocation.json:
        click.echo(error.format_message(), err=True)
        return exits.USAGE
    if isinstance(error, click.UsageError):
        out.error(_usage_sentence(error))
        return exits.USAGE
    if isinstance(error, click.ClickException):
        out.error(error.format_message())
        return error.exit_code or exits.FAILED
    debug = invocation.environ.get("MANYDESKS_DEBUG", "") not in ("", "0")
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, ManyDesksError):
        out.error(str(error))
        return error.exit_code or exits.FAILED
    where = "the stack trace is above" if debug else _keep_trace(error, invocation)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    out.error(f"internal error ({what}); {where}.")
    return exits.INTERNAL


def _usage_sentence(error: click.UsageError) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        sentence = "A command is missing."
    else:
        sentence = " ".join(error.format_message().split())
    if error.ctx is not None:
        sentence += f" See '{error.ctx.command_path} --help'."
    return sentence


def _asks_for_json(arguments: Sequence[str]) -> bool:
    before_the_operands = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before_the_operands


def _keep_trace(error: BaseException, invocation: Invocation) -> str:
    """Leave the stack trace in the office's logs: the call may not be one to repeat. Only the last one is kept."""
    with suppress(ManyDesksError, OSError):
        path = invocation.home.logs / "last-cli-error.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
        return f"the stack trace is in {path}"
    return "set MANYDESKS_DEBUG=1 to see the stack trace"


def _is_stdouts(error: OSError, refused: OSError | None) -> bool:
    """Whether stdout raised it, past `Output`, which says so itself: any other OSError is a fault of ours.

    What a buffered stdout would not take is still there, and was refused again. Without a buffer it is gone; of what
    is left, click prints help and version.
    """
    if refused is not None and refused.errno == error.errno:
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_code is click.echo.__code__


def _settle_stdout() -> OSError | None:
    """Push out what was printed before the error; if nobody takes it, point stdout at nothing, or the interpreter would
    complain about it again while it ends. Returns why it was not taken."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        with suppress(OSError, ValueError):  # a stream without a descriptor, in a test
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)
        return error if isinstance(error, OSError) else None
    return None
