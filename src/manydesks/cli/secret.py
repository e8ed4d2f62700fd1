"""`manydesks secret`: keys, which go to model servers and nowhere else."""

from __future__ import annotations

import click

from manydesks.cli import exits
from manydesks.cli.body import stdin
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.text import one_line
from manydesks.domain.errors import BadInput

#: longer than any key; ends an endless pipe
MOST_BYTES = 64 * 1024


@click.group(cls=Group)
def secret() -> None:
    """Keep the keys that agents need, out of their reach."""


@secret.command("set")
@click.argument("name")
@pass_invocation
def set_(invocation: Invocation, name: str) -> None:
    """Store a secret; its value is asked for, or read from standard input.

    Never from the command line: others on the machine can read that, and shells remember it. It is kept in secrets.toml
    in the office's folder, readable by you alone.
    """
    from manydesks.settings.secrets import set_secret

    set_secret(invocation.home, name, _value(invocation, name))
    out = invocation.out
    if out.json:
        out.value({"name": name, "set": True})
    else:
        out.line(f"The secret {one_line(name)} is stored; it counts from the next call on.")


@secret.command("list")
@pass_invocation
def list_secrets(invocation: Invocation) -> None:
    """List the names of the secrets, never their values."""
    from manydesks.settings.secrets import load_secrets

    names, out = sorted(load_secrets(invocation.home, invocation.environ)), invocation.out
    if out.json:
        out.value(names)
    elif not names:
        out.note("There are no secrets yet; `manydesks secret set NAME` stores one.")
    else:
        for name in names:
            out.line(one_line(name))


@secret.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove(invocation: Invocation, name: str, yes: bool) -> int:
    """Forget a secret."""
    from manydesks.settings.secrets import remove_secret

    if not consent(invocation, f"Remove the secret {one_line(name)}?", yes=yes):
        return exits.FAILED
    remove_secret(invocation.home, name)
    out = invocation.out
    if out.json:
        out.value({"name": name, "removed": True})
    else:
        out.line(f"The secret {one_line(name)} is removed.")
    return exits.OK


def _value(invocation: Invocation, name: str) -> str:
    if invocation.interactive():
        import getpass

        return getpass.getpass(f"Value of {one_line(name)} (it is not shown): ").strip()
    given = stdin().read(MOST_BYTES + 1)
    if len(given) > MOST_BYTES:
        raise BadInput(f"Standard input holds more than {MOST_BYTES // 1024} KiB, which is no secret.")
    try:
        return given.decode().strip()
    except UnicodeDecodeError:
        raise BadInput("The secret on standard input is not UTF-8 text.") from None
