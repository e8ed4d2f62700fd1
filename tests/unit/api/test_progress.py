"""What is told of a run's words is written down, where people look and where programs do."""

from __future__ import annotations

import json
from pathlib import Path

from manydesks.api.app import openapi_document
from manydesks.api.rendering import rendered_live
from manydesks.office.surface import Live

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_every_field_is_in_the_documents() -> None:
    live = Live(agent="amy", session="s1", run="r1", message="m1", trace="t1", text="so far")
    data = next(line for line in rendered_live(live, "look").decode().splitlines() if line.startswith("data: "))
    stream = openapi_document()["paths"]["/api/events/stream"]["get"]["responses"]["200"]["description"]
    told = next(text for text in (DOCS / "api.md").read_text().split("\n\n") if "called `progress`" in text)
    for name in json.loads(data.removeprefix("data: ")):
        assert f"`{name}`" in stream
        assert f"`{name}`" in told
