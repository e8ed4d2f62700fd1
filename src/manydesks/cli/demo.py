"""The example office: opened, and a message played in it."""

from __future__ import annotations

import threading

from manydesks.cli.answers import Answer
from manydesks.cli.invocation import Invocation
from manydesks.cli.opening import READY_SECONDS, wait_for_office
from manydesks.cli.output import Output
from manydesks.cli.sender import login_name
from manydesks.cli.text import one_line
from manydesks.cli.waiting import Waiting, tell_on
from manydesks.domain.errors import ManyDesksError

#: the home of the example office, if none is named: never the person's own
HOME = "~/.manydesks-demo"
#: a rehearsed answer takes a moment
SECONDS = 60.0


def choose_home(invocation: Invocation) -> None:
    """Before anything asks for the home."""
    if not invocation.home_option and not invocation.environ.get("MANYDESKS_HOME"):
        invocation.home_option = HOME


def furnish(invocation: Invocation) -> None:
    """The team of the example office. BadInput: somebody works in this one."""
    from manydesks.office.demo.furnish import furnish_demo

    invocation.home.prepare()
    furnish_demo(invocation.door, invocation.home)


def play(invocation: Invocation, *, show: bool = True) -> list[Answer]:
    """Send the message, and show the answers as they come; they are returned as well."""
    from manydesks.office.demo.play import SPRINT

    out, told = invocation.out, list[Answer]()
    quiet = out.json or not show
    if not out.json:
        out.line(f"> {SPRINT}")
        out.flush()
    accepted = invocation.door.ask("send", text=SPRINT, sender=login_name())
    tell = tell_on(out, invocation)

    def hear(answer: Answer) -> None:
        told.append(answer)
        if not quiet:
            tell(answer)

    waiting = Waiting(invocation, accepted["traceId"], tell=hear)
    waiting.wait(invocation.clock.monotonic() + round(SECONDS * 1000), office=not quiet)
    if not out.json:
        _say_more(out, invocation, accepted["messageId"])
    return told


def play_when_open(invocation: Invocation) -> None:
    """Beside an office that opens in this process; its own console shows the answers where there is a terminal."""
    mine = Invocation(environ=invocation.environ, home=invocation.home)
    mine.json = invocation.json

    def work() -> None:
        try:
            wait_for_office(mine, READY_SECONDS)
            play(mine, show=not mine.out.terminal)
        except ManyDesksError as error:
            mine.out.error(str(error))
        finally:
            mine.close()

    threading.Thread(target=work, name="demo", daemon=True).start()


def _say_more(out: Output, invocation: Invocation, message_id: str) -> None:
    from manydesks.office.demo.play import CHAIN, JOIN

    home = one_line(str(invocation.home.path))
    out.line()
    out.line("Go on in another terminal:")
    for command in (f"trace {message_id}", "chat product", f"send '{CHAIN}' --wait", f"send '{JOIN}' --wait"):
        out.line(f"  manydesks --home {home} {command}")
    out.flush()
