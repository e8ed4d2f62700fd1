"""The page: one HTML file that loads nothing, reads without scripting, and runs no script but the two that are ours.

Whatever came from outside is escaped where it is put in: as HTML in the text, by `\\u` in the JSON of the figures, and
once more for plotly.js, which reads tags in labels (`charts.told`).
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from manydesks.domain.cleaning import clean
from manydesks.pipeline.gold import SHARES
from manydesks.pipeline.report import charts
from manydesks.pipeline.report.facts import TOPIC_DAYS, Facts, Waterfall

TITLE = "The office's history"
HERE = Path(__file__).parent

Cell = str | int | float | None


def page(facts: Facts | None, plotly: str, doubt: str | None = None) -> str:
    """The whole file. `plotly`: the text of plotly.js. `doubt`: said above all else. `facts` None: there is nothing to
    show yet, and the page says so."""
    if facts is None:
        words = "The lake has nothing to show yet. <code>manydesks pipeline run</code> brings the office's history in."
        return _document(f"<header><h1>{TITLE}</h1>{_doubt(doubt)}</header><main><p>{words}</p></main>", {}, "")
    figures: dict[str, charts.Figure] = {}
    sections = [
        _section(figures, "messages", "Messages per agent and day",
                 charts.per_agent_and_day(facts, "messages", "messages"), _agent_table(facts)),
        _cost(figures, facts),
        _section(figures, "latency", "How long it took", charts.latency(facts), _latency_table(facts),
                 "Percentiles per agent and day: the wait until a message was first taken, the run, the delivery."),
        _section(figures, "handoffs", "Who gave work to whom", charts.handoff_matrix(facts) if facts.handoffs else None,
                 _table(("from", "to", "hand-offs"),
                        [(row["from_agent"], row["to_agent"], row["handoffs"]) for row in facts.handoffs])),
        _section(figures, "hours", "Busy hours", charts.busy_hours(facts), _hours_table(facts),
                 "Messages by weekday and hour, over the whole history."),
        _section(figures, "topics", "Topics", charts.topics(facts) if facts.topics else None, _topics_table(facts),
                 f"Terms that were said more often than in the 28 days before; of the last {TOPIC_DAYS} days shown."),
        _section(figures, "deaths", "Dead letters", charts.deaths(facts) if facts.deaths else None,
                 _letters_table(facts),
                 "All that ever died, by the day of their first death; some were given new attempts since."),
        _slowest(figures, facts),
    ]  # fmt: skip
    built = datetime.fromtimestamp(facts.built_at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    lost = f" What was before event {facts.begins:,} is not in the lake." if facts.begins > 1 else ""
    head = (
        f"<header><h1>{TITLE}</h1><p>{_e(facts.since)} to {_e(facts.until)}, all days UTC. Made of what was published "
        f"on {built}; it knows the ledger up to event {facts.seq:,}.{lost}</p>{_doubt(doubt)}</header>"
    )
    return _document(f"{head}<main>{_totals(facts)}{''.join(sections)}</main>", figures, plotly)


def _document(body: str, figures: dict[str, charts.Figure], plotly: str) -> str:
    own = (HERE / "page.js").read_text(encoding="utf-8")
    scripts = [plotly, own] if figures else []
    hashes = " ".join(f"'sha256-{_sha(script)}'" for script in scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = f'<script type="application/json" id="figures">{_json(figures)}</script>' if figures else ""
    run = "".join(f"<script>{script}</script>" for script in scripts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><title>{TITLE}</title><style>{(HERE / "page.css").read_text(encoding="utf-8")}</style>'
        "<noscript><style>.chart{display:none}</style></noscript>"
        f"</head><body>{body}{data}{run}</body></html>\n"
    )


def _section(
    figures: dict[str, charts.Figure],
    name: str,
    title: str,
    figure: charts.Figure | None,
    table: str,
    words: str = "",
    *,
    none: str = "There were none.",
) -> str:
    said = f"<p>{_e(words)}</p>" if words else ""
    if figure is None:
        return f'<section id="{name}"><h2>{_e(title)}</h2>{said}<p class="none">{_e(none)}</p></section>'
    figures[name] = figure
    height = figure["layout"].setdefault("height", 380)
    return (
        f'<section id="{name}"><h2>{_e(title)}</h2>{said}<div class="chart" data-figure="{name}" '
        f'style="height:{height:d}px"></div><details><summary>The numbers</summary>{table}</details></section>'
    )


def _doubt(words: str | None) -> str:
    return "" if words is None else f'<p class="doubt">{_e(words)}</p>'


def _dollars(cost: float) -> str:
    """Small sums with as many places as they need to be seen."""
    places = 2 if cost >= 1 or not cost else 4
    return f"${cost:,.{places}f}" if cost >= 0.0001 or not cost else "under $0.0001"


def _many(number: int | None, one: str, more: str) -> str:
    return f"{number or 0:,} {one if number == 1 else more}"


def _totals(facts: Facts) -> str:
    of = facts.totals
    cost = "unknown" if of["cost_usd"] is None else _dollars(of["cost_usd"])
    unknown = of["unknown_cost_runs"] or 0
    cards = [
        ("messages", f"{of['messages'] or 0:,}", f"{of['completed'] or 0:,} completed"),
        ("dead", f"{of['dead'] or 0:,}", _many(of["retries"], "retry", "retries")),
        ("runs", f"{of['runs'] or 0:,}", f"{of['failed_runs'] or 0:,} failed"),
        ("cost", cost, f"of {_many(unknown, 'run', 'runs')} unknown" if unknown else "of all runs known"),
        ("hand-offs", f"{of['handoffs'] or 0:,}", ""),
        ("agents", f"{of['agents'] or 0:,}", f"on {_many(of['days'], 'day', 'days')}"),
    ]
    return '<section class="totals">' + "".join(
        f'<div class="card"><span>{name}</span><b>{value}</b><small>{more}</small></div>' for name, value, more in cards
    ) + "</section>"  # fmt: skip


def _cost(figures: dict[str, charts.Figure], facts: Facts) -> str:
    known = any(row["cost_usd"] is not None for row in facts.agent_daily)
    rows = [
        (row["day"], row["agent"], row["cost_usd"], row["unknown_cost_runs"], row["input_tokens"], row["output_tokens"])
        for row in facts.agent_daily
        if row["runs"]
    ]
    table = _table(("day", "agent", "dollars", "runs of unknown cost", "tokens in", "tokens out"), rows)
    figure = charts.per_agent_and_day(facts, "cost_usd", "dollars") if known else None
    return _section(figures, "cost", "Cost per agent and day", figure, table, none="No cost is known.")


def _slowest(figures: dict[str, charts.Figure], facts: Facts) -> str:
    parts = [_waterfall(figures, number, one) for number, one in enumerate(facts.slowest, start=1)]
    words = "Each bar is a span; those with an edge are on the critical path, which the end of the trace followed from."
    shown = "".join(parts) or '<p class="none">There were none.</p>'
    return f'<section id="slowest"><h2>Slowest traces</h2><p>{words}</p>{shown}</section>'


def _waterfall(figures: dict[str, charts.Figure], number: int, one: Waterfall) -> str:
    of = one.summary
    name = f"trace{number}"
    title = (
        f"<h3>{_e(of['trace'])}</h3><p>{_e(of['day'])}, {(of['total_ms'] or 0) / 1000:,.1f} s, "
        f"messages: {of['messages']:,}, runs: {of['runs']:,}, {_e(of['status'])}.{_more(one.more)}</p>"
    )
    if not one.spans:
        return f'{title}<p class="none">Its spans are not in the lake.</p>'
    figures[name] = charts.waterfall(one)
    begun = min((span["start_at"] for span in one.spans if span["start_at"] is not None), default=0)
    table = _table(
        ("span", "kind", "agent", "from, s", "took, s", "ended well"),
        [
            (
                span["name"] or span["span_id"],
                span["kind"],
                span["agent"],
                round(((span["start_at"] or begun) - begun) / 1000, 3),
                None if span["duration_ms"] is None else round(span["duration_ms"] / 1000, 3),
                {True: "yes", False: "no", None: None}[span["ok"]],
            )
            for span in one.spans
        ],
    )
    return (
        f'{title}<div class="chart" data-figure="{name}" style="height:{figures[name]["layout"]["height"]:d}px"></div>'
        f"<details><summary>The numbers</summary>{table}</details>"
    )


def _more(spans: int) -> str:
    return f" {spans:,} later spans are not shown." if spans else ""


def _agent_table(facts: Facts) -> str:
    columns = ("day", "agent", "messages", "completed", "dead", "cancelled", "retries", "runs", "failed_runs")
    return _table(
        [name.replace("_", " ") for name in columns], [[row[name] for name in columns] for row in facts.agent_daily]
    )


def _latency_table(facts: Facts) -> str:
    names = [f"{part}_p{share}_ms" for part in ("queue", "run", "delivery") for share in SHARES]
    titles = [
        "day",
        "agent",
        *(name.removesuffix("_ms").replace("_", " ").replace("queue", "wait") + ", ms" for name in names),
    ]
    rows = [
        [row["day"], row["agent"], *(None if row[name] is None else round(row[name]) for name in names)]
        for row in facts.agent_daily
    ]
    return _table(titles, rows)


def _hours_table(facts: Facts) -> str:
    rows = [(charts.WEEKDAYS[row["weekday"] - 1], f"{row['hour']:02d}:00", row["messages"]) for row in facts.hours]
    return _table(("weekday", "hour, UTC", "messages"), rows)


def _topics_table(facts: Facts) -> str:
    columns = ("term", "agent", "day", "messages", "count", "expected", "burst")
    return _table(columns, [[row[name] for name in columns] for row in facts.topics])


def _letters_table(facts: Facts) -> str:
    rows = [
        (
            row["day"],
            row["agent"],
            row["failure_class"],
            (row["reason"] or "")[:300],
            row["attempts"],
            "yes" if row["still_dead"] else "no",
            row["message_id"],
        )
        for row in facts.letters
    ]
    return _table(("day", "agent", "class", "reason", "attempts", "still dead", "message"), rows)


def _table(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{_e(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Cell) -> str:
    if value is None:
        return "<td>–</td>"
    if isinstance(value, str):
        return f"<td>{_e(value)}</td>"
    return f'<td class="number">{_number(value)}</td>'


def _number(value: float) -> str:
    """Never with an exponent; of what is below one, four digits that count."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{Decimal(f'{value:.4g}'):f}"


def _e(text: object) -> str:
    """As text of the page, where control characters have no place."""
    told = str(text)
    return html.escape(clean(told, len(told)))


def _json(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _sha(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
