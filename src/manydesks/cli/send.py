"""`manydesks send`: a message to an agent, and with `--wait` all that comes back."""

from __future__ import annotations

from typing import Any

import click

from manydesks.cli import complete, exits
from manydesks.cli.answers import Answer, failures, pauses, setbacks, verdict
from manydesks.cli.body import read_body
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import Whole
from manydesks.cli.seconds import timeout_option
from manydesks.cli.sender import login_name
from manydesks.cli.text import one_line
from manydesks.cli.waiting import Waiting, tell_on
from manydesks.domain.errors import BadInput, NotAnswering
from manydesks.domain.ids import new_id


@click.command(cls=Command)
@click.argument("text")
@click.option(
    "--to",
    "to",
    metavar="AGENT",
    shell_complete=complete.people,
    help="Who gets it, as it is: addresses in the text are not read.",
)
@click.option("--wait", is_flag=True, help="Print the answers, hand-offs included, until all have come.")
@timeout_option(default=60, help="How long --wait waits.")
@click.option("--file", "files", multiple=True, metavar="PATH", help="A file that goes with it; repeatable.")
@click.option("--priority", type=Whole(), default=0, show_default=True, help="Higher goes first between sessions.")
@pass_invocation
def send(
    invocation: Invocation,
    text: str,
    to: str | None,
    wait: bool,
    timeout: float,
    files: tuple[str, ...],
    priority: int,
) -> int:
    """Send a message to an agent.

    TEXT may name the agents itself: '@coder fix it', '[@a: this] [@b: that]'. A TEXT of - reads standard input. A TEXT
    that begins with a slash and a word which the agent's provider knows is a command for it: '@coder /compact'.

    Up to 10 files of 25 MiB each may go with it. The office keeps copies, and each agent gets them in its inbox.

    Without an office running the message is stored, and answered when the office is up. With --wait the exit code is 0
    only if everything that followed ended well; it is 124 if the time was over first.
    """
    body = read_body(text)
    # Made before asking: a call repeated after a lost connection names the same message, and cannot store it twice.
    message_id = new_id("console")
    given = {"files": _keep(invocation, files)} if files else {}
    accepted = invocation.door.ask(
        "send", text=body, to=to, sender=login_name(), priority=priority, message_id=message_id, **given
    )
    out = invocation.out
    for notice in accepted["notices"]:
        out.note(notice)
    office = _office_runs(invocation)
    if not office and accepted["messages"]:
        out.note("No office runs; the message is stored and will be answered when it is up.")
    if wait:
        return _wait(invocation, accepted, timeout, office=office)
    if out.json:
        out.value({**_receipt(accepted), "responses": [], "status": "accepted" if office else "stored"})
        return exits.OK
    for message in accepted["messages"]:
        state = "" if message["status"] == "pending" else f" ({one_line(message['status'])})"
        out.line(f"{one_line(message['messageId'])} → {one_line(message['agent'])}{state}")
    return exits.OK


def _keep(invocation: Invocation, files: tuple[str, ...]) -> list[dict[str, Any]]:
    """Copies in the office's home: they are on the disk before the message that names them is."""
    from manydesks.domain.attachment import MAX_FILES
    from manydesks.office.files import keep_file

    if len(files) > MAX_FILES:
        raise BadInput(f"{len(files)} files are too many; at most {MAX_FILES} go with one message.")
    invocation.home.prepare()
    return [keep_file(file, invocation.home.files).as_json() for file in files]


def _wait(invocation: Invocation, accepted: dict[str, Any], timeout: float, *, office: bool) -> int:
    """Follow the trace until it has settled or the time is over; tell, and return the exit code."""
    out, told = invocation.out, list[Answer]()
    tell = told.append if out.json else tell_on(out, invocation)
    waiting = Waiting(invocation, accepted["traceId"], tell=tell)
    done = waiting.wait(invocation.clock.monotonic() + round(timeout * 1000), office=office)
    trace = waiting.trace
    reasons = failures(trace)
    if not done:
        reasons.extend(setbacks(trace))
        reasons.extend(pauses(trace, invocation.reader.agents(), office=invocation.reader.office_paused()))
        reasons.append(
            f"{accepted['messageId']} has not ended within {timeout:g} s; "
            f"`manydesks trace {accepted['messageId']}` shows how it goes on."
        )
    if out.json:
        messages = [
            {key: m.get(key) for key in ("messageId", "agent", "status", "lastError")} for m in trace["messages"]
        ]
        status = verdict(trace) if done else "timeout"
        responses = [answer.as_json() for answer in told]
        out.value({**_receipt(accepted), "messages": messages, "responses": responses, "status": status})
    if reasons:
        out.error(*reasons)
    if not done:
        return exits.TIMED_OUT
    return exits.OK if verdict(trace) == "completed" else exits.FAILED


def _receipt(accepted: dict[str, Any]) -> dict[str, Any]:
    return {key: accepted[key] for key in ("messageId", "traceId", "messages", "notices")}


def _office_runs(invocation: Invocation) -> bool:
    try:
        return invocation.door.host() is not None
    except NotAnswering as error:
        invocation.out.note(str(error))  # it runs, and the message is stored already: no reason to fail
        return True
