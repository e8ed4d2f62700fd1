"""What a turn of `claude` cost. The program reports running totals, which also survive a restart if it ended well; so
only what it says of the time since its last report is booked, or what can be counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.runner.providers.base import Usage


class Spending:
    """Follows one process."""

    def __init__(self, *, resumed: bool) -> None:
        #: totals by model at the last result; None: they began before this process, at nobody knows what
        self._before: Mapping[str, Any] | None = None if resumed else {}
        self._counted: dict[str, list[int]] = {}
        self._model: str | None = None

    def event(self, event: Mapping[str, Any]) -> None:
        """A piece of the model's stream: what is known if the process ends before its result."""
        if event.get("type") == "message_start":
            message = _mapping(event.get("message"))
            self._model = str(message.get("model") or "")
            counts = self._counted.setdefault(self._model, [0, 0, 0, 0])
            usage = _mapping(message.get("usage"))
            for place, name in enumerate(_WIRE):
                counts[place] += _count(usage.get(name)) or 0
        elif event.get("type") == "message_delta" and self._model is not None:
            # the whole of this answer's output; its beginning was counted as the first token
            output = _count(_mapping(event.get("usage")).get("output_tokens"))
            if output is not None:
                self._counted[self._model][1] += max(output - 1, 0)

    def result(self, result: Mapping[str, Any]) -> tuple[Usage, ...]:
        """What was spent since the last result, one for each model."""
        since, totals = result.get("model_usage_since_last_result"), _mapping(result.get("modelUsage"))
        before, self._before = self._before, totals
        self._counted.clear()
        self._model = None
        if isinstance(since, Mapping):
            return _usages(since, {})
        if before is not None:
            return _usages(totals, before)
        usage = _mapping(result.get("usage"))
        counts = [_count(usage.get(name)) for name in _WIRE]
        return (_usage(None, counts, None),) if any(counts) else ()

    def unfinished(self) -> tuple[Usage, ...]:
        """What was seen of calls whose result never came: the least it can have been, without a price."""
        counted, self._counted = self._counted, {}
        return tuple(_usage(model or None, counts, None) for model, counts in counted.items() if any(counts))


_WIRE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TOTALS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


def _usages(totals: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[Usage, ...]:
    found: list[Usage] = []
    for model, total in totals.items():
        now, then = _mapping(total), _mapping(before.get(model))
        counts = [_less(_count(now.get(name)), _count(then.get(name))) for name in _TOTALS]
        cost = _money(now.get("costUSD"))
        # for a model whose price it does not know the program takes another's
        if cost is not None and now.get("costBasis") != "unknown":
            cost = max(cost - (_money(then.get("costUSD")) or 0.0), 0.0)
        else:
            cost = None
        if any(counts):
            found.append(_usage(model, counts, cost))
    return tuple(found)


def _usage(model: str | None, counts: list[int | None] | list[int], cost: float | None) -> Usage:
    input, output, read, write = counts
    return Usage(input=input, output=output, cache_read=read, cache_write=write, cost_usd=cost, model=model)


def _less(now: int | None, then: int | None) -> int | None:
    return None if now is None else max(now - (then or 0), 0)


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _money(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and value >= 0 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
