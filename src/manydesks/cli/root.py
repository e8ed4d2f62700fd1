"""The root group: loads commands on use, and is the one place where an exception becomes an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from manydesks.cli.command import Group
from manydesks.cli.invocation import Invocation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """A command that is not loaded yet."""

    #: `module:attribute` of the click command
    where: str
    #: its line in the list of commands
    help: str

    def load(self) -> click.Command:
        module, _, attribute = self.where.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.where} is not a click command")
        return command


class Root(Group):
    """A group whose commands are known by name and help line, and imported when one is called."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        return entry.load() if entry is not None else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands by their lines in the list: to offer a name, nothing is imported."""
        from click.shell_completion import CompletionItem

        offered = [
            CompletionItem(name, help=entry.help) for name, entry in self.entries.items() if name.startswith(incomplete)
        ]
        return offered + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])

    def main(  # type: ignore[override]  # narrower than click's overloads: it always ends the process
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        *,
        obj: Invocation | None = None,
        **extra: Any,
    ) -> None:
        """Run the command line and exit.

        A command returns its exit code, or None for 0. What it raises is told by `failure.report`. click's own `main`
        is not used: it has its own sentences and codes for errors, and takes any return value for success.
        """
        if None in (sys.stdin, sys.stdout, sys.stderr):
            from manydesks.cli.streams import mend_streams

            mend_streams()
        os.umask(0o077)  # whatever a command, or a library it loads, makes without a thought is the owner's alone
        arguments = list(sys.argv[1:] if args is None else args)
        prog_name = prog_name or "manydesks"
        invocation = obj or Invocation()
        self._main_shell_completion({"obj": invocation, **extra}, prog_name, complete_var)
        try:
            with self.make_context(prog_name, list(arguments), obj=invocation, **extra) as context:
                result = self.invoke(context)
            sys.stdout.flush()  # a closed pipe shows itself here, not in the interpreter's last breath
            code = result if isinstance(result, int) else 0
        except click.exceptions.Exit as end:
            code = end.exit_code
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last net: whatever it is, the code is not 0
            from manydesks.cli.failure import report

            code = report(error, invocation, arguments)
        finally:
            invocation.close()
        sys.exit(code)
