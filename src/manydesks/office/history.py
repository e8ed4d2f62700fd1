"""Answers `query_history`: an agent asks for figures, and the host reads them from what the pipeline has published.

Every agent may ask for every published table: they hold counts, times and costs, unusual words, and the reasons of
failures, which may quote a message; no message as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput, NoInsights
from manydesks.domain.insight import ACTION, MOST_FOR_AGENT, TABLES
from manydesks.insights.published import Insights

#: of all rows together, as JSON; a model reads every character of it
MOST_CHARS = 60_000
#: of what the desk calls its question
MOST_NAME = 100
#: what may be asked for, as `Insights` has it
WISHES = {"agent": "agent", "from": "since", "to": "until"}


def answer(insights: Insights, payload: Mapping[str, Any], head: int) -> dict[str, Any]:
    """What the desk is told: rows, or a sentence that its model can act on. Blocks, and raises nothing of its own.

    `head`: where the ledger ends now. What the desk wrote was checked there, but nobody has to believe that.
    """
    about = {"questionId": str(payload.get("questionId"))[:MOST_NAME], "action": ACTION}
    try:
        found = _look_up(insights, payload, head)
    except (BadInput, NoInsights) as error:
        return {**about, "status": "refused", "result": str(error)}
    return {**about, "status": "answered", "result": found}


def _look_up(insights: Insights, payload: Mapping[str, Any], head: int) -> dict[str, Any]:
    table, limit = payload.get("table"), payload.get("limit", 30)
    wishes = {name: payload[word] for word, name in WISHES.items() if payload.get(word) is not None}
    if not isinstance(table, str) or not all(isinstance(wish, str) for wish in wishes.values()):
        raise BadInput(f"'table' must be one of {', '.join(TABLES)}; 'agent', 'from' and 'to' are texts.")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_FOR_AGENT:
        raise BadInput(f"'limit' must be a whole number from 1 to {MOST_FOR_AGENT}.")
    found = insights.table(table, **wishes, limit=limit)
    rows: list[dict[str, Any]] = []
    left = MOST_CHARS
    for row in found.rows:
        # a model pays for each word: what is not known, it is not told
        named = {name: value for name, value in zip(found.columns, row, strict=True) if value is not None}
        left -= len(json.dumps(named))
        if left < 0:
            break
        rows.append(named)
    return {
        "table": table,
        "rows": rows,
        "more": found.more or len(rows) < len(found.rows),
        "seq": found.stamp.seq,
        "beginsAt": found.stamp.begins,
        "builtAt": found.stamp.built_at,
        "behind": found.stamp.behind(head),
        "ahead": found.stamp.ahead(head),
    }
