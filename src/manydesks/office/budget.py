"""Settings of budgets and prices, as the store wants them; and the proxy's questions, as the store answers them."""

from __future__ import annotations

import asyncio
import logging

from manydesks.domain.budget import Amounts, Budget, amount
from manydesks.domain.errors import StoreError
from manydesks.domain.prices import Price, Prices
from manydesks.proxy.gate import Call
from manydesks.settings.model import Settings
from manydesks.store.store import Store

log = logging.getLogger(__name__)


def budget_of(settings: Settings) -> Budget:
    given = settings.budget
    return Budget(
        agent=_amounts(given.per_agent_day_usd, given.per_agent_day_tokens, given.per_agent_day_runs),
        office=_amounts(given.per_day_usd, given.per_day_tokens, given.per_day_runs),
        trace=_amounts(given.per_trace_usd, given.per_trace_tokens, given.per_trace_runs),
        first=_amounts(given.first_reserve_usd, given.first_reserve_tokens, 1),
        time_zone=given.time_zone,
    )


def prices_of(settings: Settings) -> Prices:
    return Prices(
        of=tuple(
            Price(
                model=given.model,
                input=given.input_usd,
                output=given.output_usd,
                cache_read=None if given.cache_read_usd < 0 else given.cache_read_usd,
                cache_write=None if given.cache_write_usd < 0 else given.cache_write_usd,
            )
            for given in settings.prices.values()
        )
    )


def _amounts(usd: float, tokens: int, runs: int) -> Amounts:
    return Amounts(usd=amount("usd", usd), tokens=tokens, runs=runs)


class Purse:
    """Answers the proxy: whether a session may spend, and where to write down what it spent."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._booking: set[asyncio.Task[None]] = set()
        self.take_settings(settings)

    def take_settings(self, settings: Settings) -> None:
        """These count from the next run and the next call on."""
        self._store.budget = budget_of(settings)
        self._prices = prices_of(settings)

    async def may_spend(self, session: str) -> str | None:
        """Asked before each call: what the calls before it used is in the books, since they were handed in first."""
        return await self._store.may_spend(session)

    def called(self, call: Call) -> None:
        about = (call.session, call.upstream, call.path, call.outcome, call.status, call.duration_ms)
        log.debug("%s called %s%s: %s (%s) in %d ms", *about, extra={"action": "model_called"})
        usage = call.usage
        if usage is None:
            return
        counts = {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read,
                  "cache_write": usage.cache_write}  # fmt: skip
        if all(count is None for count in counts.values()):
            return
        cost = self._prices.cost(usage.model, **counts)
        tokens = sum(count or 0 for count in counts.values())
        task = asyncio.get_running_loop().create_task(self._book(call.session, cost, tokens))
        self._booking.add(task)
        task.add_done_callback(self._booking.discard)

    async def _book(self, session: str, cost: float | None, tokens: int) -> None:
        try:
            await self._store.meter(session, usd=cost, tokens=tokens)
        except StoreError as error:
            log.error("The usage of a call could not be booked: %s", error, extra={"action": "usage_not_booked"})
