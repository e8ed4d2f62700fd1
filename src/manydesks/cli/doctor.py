"""`manydesks doctor`: what the office needs, and what to do about what is missing."""

from __future__ import annotations

from dataclasses import asdict

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.text import one_line


@click.command(cls=Command)
@pass_invocation
def doctor(invocation: Invocation) -> int:
    """Look at everything that the office needs, and say what to do.

    Each agent is looked at as if it were to start now. Nothing is changed, and no secret is shown. The exit code is 0
    if all that is set up can work; what is merely not used, or could be better, is a note.
    """
    import asyncio

    from manydesks.office.checkup import checkup
    from manydesks.office.finding import Finding

    out = invocation.out

    async def look() -> list[Finding]:
        findings = []
        async for finding in checkup(invocation.home, invocation.clock, invocation.environ):
            findings.append(finding)
            if not out.json:
                out.line(f"{out.status(finding.level):<5} {one_line(finding.what)}: {one_line(finding.says)}")
                if finding.advice:
                    out.line(f"      {one_line(finding.advice)}")
                out.flush()
        return findings

    findings = asyncio.run(look())
    bad = [finding for finding in findings if finding.level == "bad"]
    if out.json:
        out.value({"ok": not bad, "findings": [asdict(finding) for finding in findings]})
    return exits.FAILED if bad else exits.OK
