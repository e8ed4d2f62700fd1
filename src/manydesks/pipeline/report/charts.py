"""The charts, each as the figure that plotly.js draws: plain values, no drawing here.

Names come from people and agents. plotly.js takes a part of HTML in every text, so each goes through `told` first.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

from manydesks.pipeline.gold import SHARES
from manydesks.pipeline.report.facts import Facts, Row, Waterfall

Figure = dict[str, Any]

#: colours that people with any kind of sight can tell apart, after Okabe and Ito; readable on light and on dark
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f7fdd", "#999933", "#44aa99", "#aa4466")
OTHERS = "#888888"
#: what has a colour of its own; the rest of the agents is one series
MOST = len(COLOURS)
KINDS = {
    "queue": "#e69f00",
    "hold": "#8f7fdd",
    "run": "#0072b2",
    "tool": "#009e73",
    "delivery": "#56b4e9",
    "handoff": "#cc79a7",
}
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LONGEST = 60
#: so many marks fit below a chart
FEW_DAYS = 10
#: columns of whole numbers that are summed up by day
COUNTED = ("messages",)
#: an axis that ends below has a mark for each whole number
FEW = 6


def told(text: object) -> str:
    """A stranger's text, as plotly.js shows it letter by letter; long ones are cut."""
    words = " ".join(str(text).split())
    return html.escape(words if len(words) <= LONGEST else words[: LONGEST - 1] + "…", quote=False)


def per_agent_and_day(facts: Facts, column: str, axis: str) -> Figure:
    """Stacked bars; the agents with the most have series of their own."""
    names, others = _agents(facts)
    series = [
        _bars(told(name), colour, _by_day(facts.agent_daily, column, lambda row, name=name: row["agent"] == name))  # type: ignore[misc]
        for name, colour in zip(names, COLOURS, strict=False)
    ]
    if others:
        series.append(
            _bars(
                f"{len(others)} others", OTHERS, _by_day(facts.agent_daily, column, lambda row: row["agent"] in others)
            )
        )
    yaxis = {"title": {"text": axis}, "rangemode": "tozero", **(_counts(_highest(series)) if column in COUNTED else {})}
    layout = {"barmode": "stack", "xaxis": _days(facts), "yaxis": yaxis}
    return {"data": series, "layout": layout}


def latency(facts: Facts) -> Figure:
    """Three rows of lines, waits, runs and deliveries, a line for each agent; buttons choose the percentile."""
    names, _ = _agents(facts)
    parts = (("queue", "wait"), ("run", "run"), ("delivery", "delivery"))
    data = []
    for share in SHARES:
        for number, (part, _) in enumerate(parts, start=1):
            for name, colour in zip(names, COLOURS, strict=False):
                rows = [row for row in facts.agent_daily if row["agent"] == name]
                values = [row[f"{part}_p{share}_ms"] for row in rows]
                data.append(
                    {
                        "type": "scatter",
                        "mode": "lines+markers",
                        "name": told(name),
                        "legendgroup": told(name),
                        "showlegend": number == 1,
                        "visible": share == 95,
                        "x": [row["day"] for row in rows],
                        # such an axis has no 0, and clocks here tell no less than a millisecond
                        "y": [None if value is None else max(value, 1) / 1000 for value in values],
                        "customdata": [None if value is None else value / 1000 for value in values],
                        "line": {"color": colour, "width": 1.5},
                        "marker": {"size": 4},
                        "xaxis": "x",
                        "yaxis": "y" if number == 1 else f"y{number}",
                        "hovertemplate": "%{x}: %{customdata:.3~s} s<extra>%{fullData.name}</extra>",
                    }
                )
    shares = [share for share in SHARES for _ in range(len(parts) * len(names))]
    buttons = [
        {"label": f"p{share}", "method": "restyle", "args": [{"visible": [one == share for one in shares]}]}
        for share in SHARES
    ]
    axes = {
        f"yaxis{number if number > 1 else ''}": {
            "title": {"text": f"{words}, s"},
            "type": "log",
            **_marks(row[f"{part}_p{share}_ms"] for row in facts.agent_daily for share in SHARES),
            "domain": [1 - number / 3 + 0.03, 1 - (number - 1) / 3 - 0.03],
            "anchor": "x",
        }
        for number, (part, words) in enumerate(parts, start=1)
    }
    menu = {
        "type": "buttons",
        "direction": "right",
        "buttons": buttons,
        "active": 1,
        "x": 0,
        "y": 1.08,
        "xanchor": "left",
    }
    layout = {"xaxis": {**_days(facts), "anchor": "y3"}, **axes, "height": 720, "updatemenus": [menu]}
    return {"data": data, "layout": layout}


def handoff_matrix(facts: Facts) -> Figure:
    froms = sorted({row["from_agent"] for row in facts.handoffs})
    tos = sorted({row["to_agent"] for row in facts.handoffs})
    known = {(row["from_agent"], row["to_agent"]): row["handoffs"] for row in facts.handoffs}
    cells = [[known.get((one, other)) for other in tos] for one in froms]
    data = _heatmap(
        [told(name) for name in tos], [told(name) for name in froms], cells, "%{y} to %{x}: %{z:,}<extra></extra>"
    )
    layout = {
        "xaxis": {"type": "category", "title": {"text": "to"}},
        "yaxis": {"type": "category", "title": {"text": "from"}, "autorange": "reversed"},
        "height": 140 + 34 * max(len(froms), 3),
    }
    return {"data": [data], "layout": layout}


def busy_hours(facts: Facts) -> Figure:
    known = {(row["weekday"], row["hour"]): row["messages"] for row in facts.hours}
    cells = [[known.get((day, hour), 0) for hour in range(24)] for day in range(1, 8)]
    data = _heatmap(
        [f"{hour:02d}" for hour in range(24)], list(WEEKDAYS), cells, "%{y}, %{x}:00 UTC: %{z:,}<extra></extra>"
    )
    layout = {
        "xaxis": {"type": "category", "title": {"text": "hour, UTC"}},
        "yaxis": {"type": "category", "autorange": "reversed"},
    }
    return {"data": [data], "layout": layout}


def topics(facts: Facts) -> Figure:
    names = [f"{told(row['term'])} · {told(row['agent'])}, {row['day']}" for row in facts.topics]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [row["burst"] for row in facts.topics],
        "y": names,
        "customdata": [[row["count"], row["expected"]] for row in facts.topics],
        "hovertemplate": "%{y}: said %{customdata[0]:,} times, %{customdata[1]:.1f} expected<extra></extra>",
        "marker": {"color": COLOURS[2]},
    }
    layout = {
        "xaxis": {"title": {"text": "burst"}},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
        "height": 120 + 22 * len(names),
    }
    return {"data": [bars], "layout": layout}


def deaths(facts: Facts) -> Figure:
    classes = sorted({row["failure_class"] for row in facts.deaths})
    data = []
    for number, name in enumerate(classes):
        rows = [row for row in facts.deaths if row["failure_class"] == name]
        colour = COLOURS[number] if number < MOST else OTHERS
        data.append(_bars(told(name), colour, [(row["day"], row["letters"]) for row in rows]))
    axes = {"xaxis": _days(facts), "yaxis": {"title": {"text": "dead letters"}, **_counts(_highest(data))}}
    layout = {"barmode": "stack", "showlegend": True, **axes}
    return {"data": data, "layout": layout}


def waterfall(one: Waterfall) -> Figure:
    """A bar for each span, from its beginning on; those of the critical path have an edge."""
    begun = min((span["start_at"] for span in one.spans if span["start_at"] is not None), default=0)
    names = [f"{number}. {told(span['name'] or span['kind'])}" for number, span in enumerate(one.spans, start=1)]
    data = []
    for kind, colour in KINDS.items():
        chosen = [(name, span) for name, span in zip(names, one.spans, strict=True) if span["kind"] == kind]
        if not chosen:
            continue
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": kind,
                "y": [name for name, _ in chosen],
                "base": [((span["start_at"] or begun) - begun) / 1000 for _, span in chosen],
                "x": [(span["duration_ms"] or 0) / 1000 for _, span in chosen],
                "customdata": [[told(span["agent"] or ""), (span["self_ms"] or 0) / 1000] for _, span in chosen],
                "hovertemplate": "%{y}<br>%{customdata[0]}<br>%{x:.3f} s, %{customdata[1]:.3f} s of it its own"
                "<extra></extra>",
                "marker": {
                    "color": colour,
                    "opacity": [1.0 if span["on_critical_path"] else 0.55 for _, span in chosen],
                    "line": {
                        "color": "#d55e00",
                        "width": [2 if span["on_critical_path"] else 0 for _, span in chosen],
                    },
                },
            }
        )
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "seconds since the arrival"}, "rangemode": "tozero"},
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names,
            "autorange": "reversed",
            "automargin": True,
        },
        "height": 130 + 24 * max(len(names), 4),
    }
    return {"data": data, "layout": layout}


def _agents(facts: Facts) -> tuple[list[str], set[str]]:
    """Those with the most messages, and the rest; each has the same colour in every chart."""
    sums: dict[str, float] = {}
    for row in facts.agent_daily:
        sums[row["agent"]] = sums.get(row["agent"], 0) + row["messages"]
    names = sorted(sums, key=lambda name: (-sums[name], name))
    return names[:MOST], set(names[MOST:])


def _by_day(rows: Iterable[Row], column: str, wanted: Callable[[Row], bool]) -> list[tuple[str, float]]:
    sums: dict[str, float] = {}
    for row in rows:
        if wanted(row) and row[column] is not None:
            sums[row["day"]] = sums.get(row["day"], 0) + row[column]
    return sorted(sums.items())


def _days(facts: Facts) -> Figure:
    """An axis of days; of a few each has its mark, and none has marks for hours."""
    try:
        few = (date.fromisoformat(facts.until) - date.fromisoformat(facts.since)).days < FEW_DAYS
    except ValueError:  # a day that no calendar here knows
        few = False
    return {"type": "date", **({"dtick": 86_400_000, "tickformat": "%b %-d"} if few else {})}


def _highest(series: Iterable[Figure]) -> float:
    """Of stacked bars."""
    sums: dict[str, float] = {}
    for bars in series:
        for day, value in zip(bars["x"], bars["y"], strict=True):
            sums[day] = sums.get(day, 0) + value
    return max(sums.values(), default=0)


def _counts(most: float) -> Figure:
    """Of an axis of whole numbers: the library by itself marks halves between a few."""
    return {"dtick": 1} if most < FEW else {}


def _marks(times: Iterable[float | None]) -> Figure:
    """Of an axis of seconds whose steps are powers of ten: each mark says its whole number, of which the library by
    itself leaves but the first digit between two powers. The wider the axis, the fewer."""
    seconds = [max(time, 1) / 1000 for time in times if time is not None]
    if not seconds:
        return {}
    least, most = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    steps = next((steps for width, steps in ((2, (1, 2, 5)), (4, (1, 3))) if most - least <= width), (1,))
    marks = [step * 10.0**power for power in range(least, most + 1) for step in steps]
    return {"tickvals": marks, "ticktext": [f"{mark:,.3f}".rstrip("0").rstrip(".") for mark in marks]}


def _bars(name: str, colour: str, values: Sequence[tuple[str, float]]) -> Figure:
    return {
        "type": "bar",
        "name": name,
        "x": [day for day, _ in values],
        "y": [value for _, value in values],
        "marker": {"color": colour},
        "hovertemplate": "%{x}: %{y:,}<extra>%{fullData.name}</extra>",
    }


def _heatmap(columns: list[str], rows: list[str], cells: list[list[Any]], template: str) -> Figure:
    return {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": cells,
        "hovertemplate": template,
        "colorscale": [[0, "#dcebf5"], [0.5, "#3a8fc4"], [1, "#06304d"]],
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "colorbar": _counts(max((cell or 0 for row in cells for cell in row), default=0)),
    }
