"""What `manydesks doctor` says of the pipeline: what is in force, and why; and how it went the last time."""

from __future__ import annotations

from datetime import UTC, datetime

from manydesks.office.finding import Finding
from manydesks.office.pipeline import record
from manydesks.office.pipeline.archivist import installed
from manydesks.office.pipeline.child import LOG
from manydesks.settings.home import Home
from manydesks.settings.model import Settings

WHAT = "pipeline"


def pipeline(home: Home, settings: Settings) -> Finding:
    rules = settings.pipeline
    kept = " Until then nothing old is removed from the store." if settings.retention.require_archive else ""
    if not installed():
        says = f"Its packages are not installed, so nothing runs by itself (pipeline.auto is {rules.auto}).{kept}"
        advice = "`pip install 'manydesks[pipeline]'` brings them; without them, set retention.require_archive = false."
        return Finding(what=WHAT, level="note", says=says, advice=advice)
    if rules.auto == "off":
        says = f"Nothing runs by itself (pipeline.auto is off); `manydesks pipeline run` fills the lake.{kept}"
        return Finding(what=WHAT, level="note", says=says)
    force = {
        "nightly": f"While the office is open, it runs each night at {rules.nightly_at} (pipeline.auto is nightly).",
        "watch": "While the office is open, the lake is kept up with the ledger (pipeline.auto is watch).",
    }[rules.auto]
    found = record.read(home)
    last = found.last if found is not None else None
    if last is None:
        none = "No watch has ended yet." if rules.auto == "watch" else "It has not run by itself yet."
        return Finding(what=WHAT, level="ok", says=f"{force} {none}")
    when = datetime.fromtimestamp(last.ended_at / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    if last.ok:
        return Finding(what=WHAT, level="ok", says=f"{force} Its last {last.job} ended well ({when}).")
    reason = f"{(last.reason or 'no reason is known').rstrip('.')}."
    advice = f"{home.logs / LOG} has what it said; `manydesks pipeline run` tries it now."
    return Finding(what=WHAT, level="bad", says=f"{force} Its last {last.job} failed ({when}): {reason}", advice=advice)
