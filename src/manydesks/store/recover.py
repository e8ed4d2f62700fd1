"""After a start: what an earlier host left claimed."""

from __future__ import annotations

from collections.abc import Mapping

from manydesks.domain.failure import Failure, FailureClass
from manydesks.store.accept import MESSAGES
from manydesks.store.deliver import Delivery, settle_parcel
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.outcome import Rules, died, find_run
from manydesks.store.respond import RESPONSES
from manydesks.store.waits import may_begin

#: a channel that sends again what was cut off, and one that gives it up; any other leaves it unsure
RESEND, DROP = "resend", "drop"

CUT_OFF = "the office stopped while it was being sent"
STOPPED = "the office stopped during the run"


def open_runs(tx: OfficeTransaction, worker: str) -> list[tuple[str, str, int]]:
    """(agent, session, fence) of runs that another incarnation began and never ended."""
    return tx.all(
        "select r.agent, r.session, r.fence from claims c join runs r on r.session = c.lane and r.fence = c.fence "
        "where c.worker <> ? order by c.fence",
        (worker,),
    )


def release(tx: OfficeTransaction, worker: str, rules: Rules, rule_of: Mapping[str, str]) -> int:
    """End every claim of earlier incarnations; how many rows came free.

    Messages count an attempt (one that brings the host down must not do so for ever) and are ready at once.
    Responses that were being sent may have arrived: their channel's rule decides, until the last attempt; then a
    person does.
    """
    freed = 0
    for fence, lane in tx.all("select fence, lane from claims where worker <> ? order by fence", (worker,)):
        run = find_run(tx, session=lane, fence=fence) if lane is not None else None
        if run is not None:
            freed += len(MESSAGES.members(tx, fence))
            died(tx, run, Failure(kind=FailureClass.TRANSIENT, reason=STOPPED), rules, at_once=True)
            continue
        for row, retries in RESPONSES.members(tx, fence):
            freed += 1
            found = tx.one("select queue from responses where id = ?", (row,))
            # one whose sending brings the office down must not do so for ever
            last = retries + 1 >= rules.deliveries
            settle_parcel(tx, row, fence, _verdict(None if last else rule_of.get(found[0]) if found else None))
        RESPONSES.end(tx, fence)
    # nothing could begin while the office was closed
    may_begin(tx)
    return freed


def _verdict(rule: str | None) -> Delivery:
    if rule == RESEND:
        return Delivery(retry_in_ms=0, reason=CUT_OFF)
    return Delivery(dropped=True, reason=CUT_OFF) if rule == DROP else Delivery(unsure=True, reason=CUT_OFF)
