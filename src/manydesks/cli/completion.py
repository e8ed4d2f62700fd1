"""`manydesks completion`: what a shell needs to complete the command line."""

from __future__ import annotations

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation

#: where each shell finds it, for good
HOW = {
    "bash": 'eval "$(manydesks completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(manydesks completion zsh)" in ~/.zshrc, after compinit',
    "fish": "manydesks completion fish | source in ~/.config/fish/config.fish",
}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(list(HOW)))
@pass_invocation
def completion(invocation: Invocation, shell: str) -> None:
    """Print what lets a shell complete commands and names.

    Commands, options, agents, teams, messages and questions are offered. For good: `eval "$(manydesks completion
    bash)"` in ~/.bashrc, the same with zsh in ~/.zshrc after compinit, or `manydesks completion fish | source` in
    ~/.config/fish/config.fish.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from manydesks.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    # not the class's own `source`: that of bash runs bash to ask for its version
    script = ShellComplete.source(kind(cli, {}, "manydesks", "_MANYDESKS_COMPLETE"))
    # click's own splits a description at each of its commas, and shows no more than its beginning
    script = script.replace('(string split "," $completion)', '(string split --max 1 "," $completion)')
    out = invocation.out
    if out.json:
        out.value({"shell": shell, "script": script, "how": HOW[shell]})
    else:
        out.answer(script)
