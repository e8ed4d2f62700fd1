"""The page with charts: what it shows, and that no name on it can do anything."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")
pytest.importorskip("plotly", reason="plotly is not installed: pip install 'manydesks[pipeline]'")

import pyarrow as pa
import pyarrow.parquet as pq
from plotly import graph_objects
from pyspark.sql.pandas.types import to_arrow_schema

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import NoInsights
from manydesks.domain.insight import FILE, TABLES
from manydesks.pipeline import tables
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.commit import Change, commit_files
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.lock import hold
from manydesks.pipeline.publish import publish
from manydesks.pipeline.report.charts import told
from manydesks.pipeline.report.facts import gather
from manydesks.pipeline.report.page import page
from manydesks.pipeline.silver import SPANS
from manydesks.testing.clock import ManualClock

SCRIPT = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
ESCAPE = "\x1b[31m\x00"
LINK = '<a href="javascript:alert(3)">click</a>'
QUOTE = "\" onmouseover='alert(4)' &amp; %{x}"
PLOTLY = "window.Plotly = {};"

DAY = "2026-01-02"
AGENT = {"day": DAY, "messages": 3, "runs": 2, "queue_p50_ms": 5.0, "queue_p95_ms": 9.0, "queue_p99_ms": 9.5}
SPAN = {"day": DAY, "trace": LINK, "agent": IMAGE, "start_seq": 1, "ok": True}
ROWS: dict[str, list[dict[str, Any]]] = {
    "agent_daily": [
        {**AGENT, "agent": SCRIPT, "cost_usd": 0.5},
        {**AGENT, "agent": IMAGE},
        {**AGENT, "agent": "ada", "day": "2026-01-01", "messages": 1},
    ],
    "handoff_matrix": [{"day": DAY, "from_agent": SCRIPT, "to_agent": QUOTE, "handoffs": 2}],
    "busy_hours": [{"weekday": 7, "hour": 23, "agent": IMAGE, "messages": 4}],
    "topics_daily": [{"day": DAY, "agent": LINK, "term": SCRIPT, "count": 9, "burst": 2.5}],
    "dead_letters": [{"day": DAY, "message_id": "m", "agent": IMAGE, "reason": SCRIPT + ESCAPE, "failure_class": LINK}],
    "trace_summary": [{"day": DAY, "trace": LINK, "total_ms": 900, "status": "done"}],
    "spans": [
        {**SPAN, "span_id": "a", "kind": "queue", "name": SCRIPT, "start_at": 100, "end_at": 400, "duration_ms": 300},
        {**SPAN, "span_id": "b", "kind": "run", "name": QUOTE, "start_at": 400, "on_critical_path": True},
        {**SPAN, "span_id": "c", "kind": "run", "name": "of another trace", "trace": "other", "start_at": 1},
    ],
}


def put(held: Any, spec: TableSpec, rows: list[dict[str, Any]]) -> None:
    plain = {"bigint": 0, "double": 0.0, "boolean": False, "string": ""}
    base = {c.name: None if c.nullable else plain[c.type.simpleString()] for c in spec.columns}
    days: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        days.setdefault(row.get("day", ""), []).append(base | row)

    def write(attempt: Path) -> None:
        for day, found in days.items():
            made = pa.Table.from_pylist(found, schema=to_arrow_schema(spec.schema))
            pq.write_table(made, attempt / f"{day}.parquet")

    tables.ensure(held, spec)
    properties = tables.Mark(app=spec.name, version=77).properties
    commit_files(held.folder / spec.folder, spec, write, SystemClock(), Change(properties=properties))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    with hold(folder) as held:
        for spec in (*GOLD, SPANS):
            put(held, spec, ROWS.get(spec.name, []))
        publish(held, ManualClock(now=1_767_400_000_000))
    return folder


@pytest.fixture(scope="module")
def made(lake: Path) -> str:
    return page(gather(lake, 92), PLOTLY)


class Elements(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts_of(one)


def figures_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_no_name_becomes_an_element(made: str) -> None:
    found = Elements(made)
    names = {tag for tag, _ in found.tags}
    assert names.isdisjoint({"img", "a", "iframe", "object", "link", "base", "form"})
    assert len(found.scripts) == 3
    for _, attributes in found.tags:
        assert not any(name.startswith("on") or name in ("src", "href", "srcdoc") for name in attributes)


def test_no_control_character_is_on_the_page(made: str) -> None:
    assert (
        SCRIPT.replace("<", "&lt;").replace(">", "&gt;") + "\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}"
        in made
    )
    assert not {"\x00", "\x1b"} & {*made}


def test_no_label_has_a_tag_for_plotly(made: str) -> None:
    ours = ("<br>", "<extra></extra>", "<extra>%{fullData.name}</extra>")
    for figure in figures_of(made).values():
        for text in texts_of(figure):
            rest = text
            for tag in ours:
                rest = rest.replace(tag, "")
            assert "<" not in rest
            assert ">" not in rest
    assert told(SCRIPT).startswith("&lt;/script&gt;")
    assert len(told("x" * 500)) == 60


def test_only_our_scripts_may_run_and_nothing_is_loaded(made: str) -> None:
    policy = next(a["content"] for tag, a in Elements(made).tags if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in (policy or "").split(";"))
    assert (rules["default-src"], rules["img-src"]) == ("'none'", "data: blob:")
    scripts = [script for script in Elements(made).scripts if not script.startswith("{")]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts]
    assert rules["script-src"].split() == hashes
    assert scripts[0] == PLOTLY
    assert not re.search(r"https?://", made)


def test_every_chart_is_one_that_plotly_knows(made: str) -> None:
    figures = figures_of(made)
    assert list(figures) == ["messages", "cost", "latency", "handoffs", "hours", "topics", "deaths", "trace1"]
    places = [attributes["data-figure"] for _, attributes in Elements(made).tags if "data-figure" in attributes]
    assert places == list(figures)
    for figure in figures.values():
        graph_objects.Figure(data=figure["data"], layout=figure["layout"])  # raises for what it does not know


def test_the_figures_are_those_of_the_lake(made: str) -> None:
    figures = figures_of(made)
    assert {(bar["name"], tuple(bar["x"]), tuple(bar["y"])) for bar in figures["messages"]["data"]} == {
        (told(SCRIPT), (DAY,), (3,)),
        (told(IMAGE), (DAY,), (3,)),
        ("ada", ("2026-01-01",), (1,)),
    }
    assert figures["hours"]["data"][0]["z"][6][23] == 4
    assert "on 2 days" in made
    assert figures["handoffs"]["data"][0]["z"] == [[2]]
    spans = {bar["name"]: bar for bar in figures["trace1"]["data"]}
    assert (spans["queue"]["base"], spans["queue"]["x"]) == ([0.0], [0.3])
    assert (spans["run"]["base"], spans["run"]["marker"]["line"]["width"]) == ([0.3], [2])
    assert "of another trace" not in made
    for words in ("up to event 77", "2026-01-01 to 2026-01-02", "<b>7</b>", "$0.50", "2026-01-03 00:26 UTC"):
        assert words in made


def test_each_of_a_few_days_has_a_mark(made: str, lake: Path) -> None:
    facts = gather(lake, 92)
    assert facts is not None
    assert figures_of(made)["messages"]["layout"]["xaxis"]["dtick"] == 86_400_000
    for since in ("2025-11-01", "+10000-01-01"):
        other = figures_of(page(dataclasses.replace(facts, since=since), PLOTLY))
        assert other["messages"]["layout"]["xaxis"] == {"type": "date"}


@pytest.mark.parametrize(
    ("times", "marks"),
    [
        # plotly would write 5 for 0.05
        ((20, 60), ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]),
        ((0, 900), ["0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1", "3"]),
        ((1, 3_000_000), ["0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000"]),
        ((), None),
    ],
)
def test_axes_of_seconds_say_whole_numbers(lake: Path, times: tuple[float, ...], marks: list[str] | None) -> None:
    facts = gather(lake, 92)
    assert facts is not None
    row = {**facts.agent_daily[0], **dict.fromkeys(("run_p50_ms", "run_p95_ms", "run_p99_ms"))}
    rows = [{**row, "run_p50_ms": time} for time in times] or [row]
    figure = figures_of(page(dataclasses.replace(facts, agent_daily=rows), PLOTLY))["latency"]
    axis = figure["layout"]["yaxis2"]
    assert axis.get("ticktext") == marks
    assert [f"{value:,.3f}".rstrip("0").rstrip(".") for value in axis.get("tickvals", ())] == (marks or [])
    shown = next(line["y"] for line in figure["data"] if line["yaxis"] == "y2")
    # the axis has no 0
    assert [value for value in shown if value is not None] == [max(time, 1) / 1000 for time in times]


@pytest.mark.parametrize(
    ("cost", "words"),
    [(0, "$0.00"), (0.004, "$0.0040"), (0.00001, "under $0.0001"), (1234.5, "$1,234.50"), (None, "unknown")],
)
def test_small_costs_are_not_nothing(lake: Path, cost: float | None, words: str) -> None:
    facts = gather(lake, 92)
    assert facts is not None
    told = dataclasses.replace(facts, totals={**facts.totals, "cost_usd": cost})
    assert f"<b>{words}</b>" in page(told, PLOTLY)


@pytest.mark.parametrize(("most", "step"), [(5, 1), (6, None)])
def test_a_few_are_counted_in_whole_numbers(lake: Path, most: int, step: int | None) -> None:
    facts = gather(lake, 92)
    assert facts is not None
    row, hour = {**facts.agent_daily[0], "messages": most}, {**facts.hours[0], "messages": most}
    figures = figures_of(page(dataclasses.replace(facts, agent_daily=[row], hours=[hour]), PLOTLY))
    assert figures["messages"]["layout"]["yaxis"].get("dtick") == step
    assert figures["hours"]["data"][0]["colorbar"].get("dtick") == step


def test_fewer_days(lake: Path) -> None:
    facts = gather(lake, 1)
    assert facts is not None
    assert (facts.since, facts.until, facts.totals["messages"]) == (DAY, DAY, 6)


def test_an_empty_lake_has_a_page_that_says_so(tmp_path: Path) -> None:
    for _ in range(2):
        made = page(gather(tmp_path, 92), PLOTLY)
        assert "nothing to show yet" in made
        assert "<script" not in made
        with hold(tmp_path) as held:
            for spec in GOLD:
                tables.ensure(held, spec)
            publish(held, SystemClock())
    assert set(TABLES) <= {spec.name for spec in GOLD}


def test_a_file_that_is_not_whole_is_one_sentence(tmp_path: Path) -> None:
    with hold(tmp_path) as held:
        for spec in GOLD:
            tables.ensure(held, spec)
        publish(held, SystemClock())
    whole = (tmp_path / FILE).read_bytes()
    # the last page has nothing that the page shows
    for content in (b"torn" * 300, whole[:-1]):
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(NoInsights, match="is damaged"):
            gather(tmp_path, 92)


def test_secrets_and_what_looks_like_a_key_are_not_on_the_page(tmp_path: Path) -> None:
    key, secret = "sk-ABCDEF0123456789abcdef0123", "OpenSesame"
    # where the page cuts it, half a key would be left that nothing knows as one
    reasons = [f"key {key} wrong", f"{'x' * 290} {key}", f"no {secret} here", "the tap is shut"]
    letter = ROWS["dead_letters"][0] | {"agent": "ada"}
    span = SPAN | {"trace": "t1", "agent": "ada", "span_id": "a", "kind": "tool", "start_at": 1, "duration_ms": 5}
    rows = {
        "agent_daily": [{**AGENT, "agent": "sk-research1"}],
        "topics_daily": [ROWS["topics_daily"][0] | {"term": term} for term in ("the opensesame", "gardens")],
        "dead_letters": [letter | {"message_id": f"m{n}", "reason": reason} for n, reason in enumerate(reasons)]
        + [letter | {"message_id": "m9", "reason": None, "failure_class": key}],
        "trace_summary": [{"day": DAY, "trace": "t1", "total_ms": 900, "status": "done"}],
        "spans": [span | {"name": f"fetch {key}"}],
    }
    folder = tmp_path / "home" / "lake"
    folder.mkdir(parents=True)
    with hold(folder) as held:
        for spec in (*GOLD, SPANS):
            put(held, spec, rows.get(spec.name, []))
        publish(held, ManualClock(now=1_767_400_000_000))
    variables = {**os.environ, "MANYDESKS_HOME": str(tmp_path / "home"), "MANYDESKS_SECRET_DOOR": secret}
    command = [sys.executable, "-m", "manydesks", "pipeline", "report", "--out", "page.html"]
    told = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    text = (tmp_path / "page.html").read_text()
    bare = page(gather(folder, 92), PLOTLY)
    for hidden in ("sk-ABC", secret, "opensesame"):
        assert hidden in bare
        assert hidden not in text
    for shown in ("key *** wrong", "no *** here", "fetch ***", "the tap is shut", "gardens", "sk-research1"):
        assert shown in text
