"""`manydesks status`: is the office up, what is in its queue, and what waits for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from manydesks import __version__
from manydesks.cli import exits
from manydesks.cli.answers import PASSING
from manydesks.cli.caps import sentence, today
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.quantity import count, duration, moment
from manydesks.cli.text import one_line
from manydesks.domain.errors import ManyDesksError, NotAnswering, SettingsError
from manydesks.office.exposure import exposure_of

SHOWN = ("pending", "processing", "held", "dead", "outgoing")
#: it answers from memory, so that one which takes longer hangs; a loaded machine is allowed for
ANSWER_SECONDS = 3.0


@click.command(cls=Command)
@pass_invocation
def status(invocation: Invocation) -> int:
    """Show whether the office is up, and its queue.

    Also what waits for you: dead letters, messages that are held, answers that may not have arrived, questions. It is
    read from the store, and so shown as well when the office is down or hangs. The exit code is 0 only if an office
    runs and answers.
    """
    out = invocation.out
    host: dict[str, Any] | None = None
    hangs_since: int | None = None
    try:
        host = invocation.door.host(ANSWER_SECONDS)
        state = "up" if host is not None else "down"
    except NotAnswering as error:
        state, hangs_since = "not_answering", invocation.door.last_sign()
        out.note(str(error))
    seen: dict[str, Any] = {"queue": None, "paused": [], "officePaused": False, "waiting": None}
    try:
        reader = invocation.reader
        agents = reader.agents()
        paused = [row["id"] for row in agents if row["paused"]]
        why = {row["id"]: row["pauseReason"] for row in agents if row.get("pauseReason")}
        office = reader.office_paused()
        seen = {
            "queue": reader.queue_status(),
            "paused": paused,
            "overBudget": why,
            "caps": _caps(invocation),
            "officePaused": office,
            "waiting": reader.overview(),
            "missingDefault": _missing_default(invocation, {row["id"] for row in agents}),
        }
    except ManyDesksError as error:
        if state == "up":
            raise
        out.note(str(error))  # the answer is "no" already, and a home that was never used has no queue
    home, exposed = str(invocation.home.path), exposure_of(host)
    if out.json:
        about = {"status": state, "home": home, "host": host, "exposed": exposed, "hangsSince": hangs_since}
        out.value({**about, **seen})
        return exits.OK if state == "up" else exits.FAILED
    since = "" if hangs_since is None else f"  since {moment(hangs_since)}"
    out.line(f"office  {out.status(state.replace('_', ' '))}{_about(host)}{since}")
    out.line(f"home    {one_line(home)}")
    if seen["queue"] is not None:
        out.line("queue   " + ", ".join(f"{seen['queue'][key]:,} {key}" for key in SHOWN))
    if seen["officePaused"]:
        out.line("paused  the whole office: nothing begins until `manydesks queue resume --all`")
    if seen["paused"]:
        out.line("paused  " + ", ".join(map(one_line, seen["paused"])))
    for agent, reason in seen.get("overBudget", {}).items():
        out.line(f"budget  {one_line(agent)} is paused: {one_line(reason)}")
    for cap in seen.get("caps", ()):
        out.line(f"today   {one_line(cap['agent'] or 'the office')}: {sentence(cap)}")
    if (missing := seen.get("missingDefault")) and not ((host or {}).get("settings") or {}).get("refused"):
        out.line(f"default {one_line(missing)} does not exist: a message that names nobody is refused")
    for line, why in ((host or {}).get("channels") or {}).get("down", {}).items():
        out.line(f"channel {one_line(line)} is down: {one_line(why)}")
    if (line := _api(host)) is not None:
        out.line(f"api     {line}")
    if exposed is not None:
        out.line(f"api     {one_line(exposed)}")
    for line in _settings(host):
        out.line(f"settings  {line}")
    for line in _pipeline(host):
        out.line(f"pipeline  {line}")
    for line in _waiting(seen["queue"], seen["waiting"]):
        out.line(f"{'waits':<8}{line}")
    return exits.OK if state == "up" else exits.FAILED


def _caps(invocation: Invocation) -> list[dict[str, Any]]:
    """The office's own, and those of agents that are used by now; none while the settings are not valid."""
    try:
        return [cap for cap in today(invocation) if cap["agent"] is None or cap["spent"] or cap["reserved"]]
    except SettingsError:
        return []


def _missing_default(invocation: Invocation, agents: set[str]) -> str | None:
    """The default agent that the settings name, if there are agents and it is none of them."""
    from manydesks.settings.load import load_settings

    try:
        name = load_settings(invocation.home, invocation.environ).office.default_agent
    except SettingsError:
        return None
    return name if agents and name not in agents else None


def _about(host: dict[str, Any] | None) -> str:
    if host is None:
        return ""
    version = one_line(str(host["version"]))
    older = "" if version == __version__ else f", this command is {__version__}"
    return f"  (process {host['pid']}, version {version}{older}, for {duration(host['uptime_ms'])})"


def _api(host: Mapping[str, Any] | None) -> str | None:
    """Where programs find it; nothing of an API that its owner has switched off."""
    known = (host or {}).get("api") or {}
    if known.get("url"):
        return one_line(str(known["url"]))
    return f"is not there: {one_line(str(known['why']))}" if known.get("why") and known.get("enabled") else None


def _settings(host: Mapping[str, Any] | None) -> Iterator[str]:
    """What of the settings file does not count now."""
    known = (host or {}).get("settings") or {}
    if known.get("refused"):
        yield f"not taken, the old ones stay: {one_line(str(known['refused']))}"
    for name in known.get("nextStart") or ():
        yield f"{one_line(str(name))} takes effect at the next start"


def _pipeline(host: Mapping[str, Any] | None) -> Iterator[str]:
    """What the office does by itself for the lake, and how it went."""
    known = (host or {}).get("pipeline") or {}
    if running := known.get("running"):
        yield f"{running['job']}  (process {running['pid']}, since {moment(running['startedAt'])})"
    last = known.get("last")
    if last and not last["ok"]:
        yield f"the last {last['job']} failed, {moment(last['endedAt'])}: {one_line(str(last['reason']))}"
    elif last and not running:
        yield f"the last {last['job']} ended well, {moment(last['endedAt'])}"


def _waiting(queue: Mapping[str, int] | None, waiting: Mapping[str, Any] | None) -> Iterator[str]:
    """What waits for a person, each with the command that deals with it."""
    if queue is None or waiting is None:
        return
    if waiting["questions"]:
        yield f"{count(waiting['questions'], 'question')}: `manydesks questions`"
    if queue["dead"]:
        yield f"{count(queue['dead'], 'dead letter')}: `manydesks queue dead`"
    held = {reason: n for reason, n in waiting["holds"].items() if reason not in PASSING}
    if held:
        why = ", ".join(one_line(reason) for reason in sorted(held))
        yield f"{count(sum(held.values()), 'held message')} ({why}): `manydesks queue held`"
    for state, words in (("unsure", "that may not have arrived"), ("dead", "that cannot be delivered")):
        if n := waiting["responses"].get(state):
            yield f"{count(n, 'answer')} {words}: `manydesks responses list`"
