"""Delivery: responses go out, piece by piece, each conversation in order, conversations side by side."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from manydesks.channels.base import CutOff, DeliveryFailed, Receipt
from manydesks.channels.packing import ANSWER, pieces, wants_file
from manydesks.domain.cleaning import ID, clean, sentence
from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.envelope import Parcel
from manydesks.domain.errors import StoreError
from manydesks.domain.failure import Failure, FailureClass, RetryAt, next_step
from manydesks.office.accounts import Account
from manydesks.office.files import keep_text
from manydesks.office.patience import until_stored
from manydesks.office.rules import retry_policy, rules
from manydesks.office.stranger import within, words_of
from manydesks.office.switchboard import Connected, Switchboard
from manydesks.settings.model import Settings
from manydesks.store.deliver import Delivery
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: sendings under way at once, of one channel: one that hangs takes no room from the others
SENDINGS = 64
#: how often it is looked for what has become too old
LOOK_MS = 60_000
#: why a response is `unsure` that could not be settled by what its channel said
UNSETTLED = "what became of it could not be stored; the office's log says why"


class Deliverer:
    """Sends what is due. A response for a channel that is not there is held; it is never "delivered"."""

    def __init__(
        self, store: Store, board: Switchboard, settings: Settings, *, files: Path, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._board = board
        self._files = files
        self._clock = clock or SystemClock()
        self.take_settings(settings)
        self._rng = random.Random()
        self._sendings: dict[asyncio.Task[None], str] = {}
        #: what became of sendings, and who waits for it to be stored
        self._verdicts: list[tuple[Parcel, Delivery, asyncio.Future[bool]]] = []
        self._looked: int | None = None
        self._stopping = False

    def take_settings(self, settings: Settings) -> None:
        """These count from now on, also for what waits already."""
        self._settings = settings
        self._policy = replace(retry_policy(settings), max_attempts=settings.delivery.max_attempts)
        self._limits = rules(settings).limits

    async def pump(self) -> None:
        """Hold what cannot go, let expire what is too old, and begin every sending that can begin now."""
        board = self._board
        fetched = board.fetched()
        there = [*board.up, *fetched, *board.coming()]
        await self._expire(fetched)
        while True:
            room = self._room([line for line in board.up if line not in fetched])
            parcels = await self._claim(room, there)
            for parcel in parcels:
                self._begin(parcel)
            if not parcels or len(parcels) < sum(room.values()):
                # nothing more is ready, and whatever becomes so is a commit, which brings us here again
                return

    async def drain(self, seconds: float) -> None:
        """Wait for the sendings that are under way; what is cut off is for the next start to settle."""
        self._stopping = True
        # nobody pumps any more: each sees to its own
        self._tell(self._verdicts, stored=False)
        self._verdicts = []
        if self._sendings:
            await asyncio.wait(set(self._sendings), timeout=seconds)

    def _room(self, lines: list[str]) -> dict[str, int]:
        busy = Counter(self._sendings.values())
        return {line: SENDINGS - busy[line] for line in lines if busy[line] < SENDINGS}

    async def _expire(self, fetched: Mapping[str, object]) -> None:
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < LOOK_MS:
            return
        ages = self._board.max_ages()
        default = round(self._settings.delivery.max_age_hours * 3_600_000)
        # what is not fetched, nor held, is looked at when its turn comes
        held = {line: age for line, age in ages.items() if line in fetched}
        if not await self._store.expire_responses(held, default):
            self._looked = now

    def _begin(self, parcel: Parcel) -> None:
        task = asyncio.create_task(self._send(parcel, self._board.up.get(parcel.line)))
        self._sendings[task] = parcel.line
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._sendings.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A delivery could not be settled", exc_info=error, extra={"action": "delivery_failed"})

    async def _send(self, parcel: Parcel, at: Connected | None) -> None:
        try:
            if at is None:
                # it went down since the claim: nothing was sent
                verdict: Delivery | None = Delivery(retry_in_ms=0, reason="the channel went down before it was sent")
            else:
                verdict = await self._pieces(parcel, at)
            if verdict is not None:
                await self._settle(parcel, verdict)
        except StoreError:
            # we are stopping, and the next start settles it
            raise
        except Exception as error:
            # nobody would look at it again, and its conversation would wait for it: a person decides
            log.error("A delivery could not be settled", exc_info=error, extra={"action": "delivery_unsettled"})
            await self._settle(parcel, Delivery(unsure=True, reason=UNSETTLED))

    async def _claim(self, room: Mapping[str, int], there: Sequence[str]) -> list[Parcel]:
        """Store what became of sendings since the last time, and claim what can go out now: one commit for both."""
        verdicts, self._verdicts = self._verdicts, []
        stored = False
        try:
            parcels = await self._store.claim_parcels(
                list(room),
                most=sum(room.values()),
                room=room,
                max_age_ms=self._board.max_ages(),
                there=there,
                why=dict(self._board.why),
                settled=[(parcel, verdict) for parcel, verdict, _ in verdicts],
                limits=self._limits,
            )
            stored = True
        except StoreError:
            # a full disk, say: all of them come again with the next look
            verdicts, self._verdicts = [], verdicts + self._verdicts
            raise
        except Exception:
            # one of them cannot be stored, which costs the others nothing: each sees to its own
            if not verdicts:
                raise
            return []
        finally:
            self._tell(verdicts, stored=stored)
        return parcels

    def _tell(self, verdicts: list[tuple[Parcel, Delivery, asyncio.Future[bool]]], *, stored: bool) -> None:
        for _, _, told in verdicts:
            if not told.done():
                told.set_result(stored)

    async def _settle(self, parcel: Parcel, verdict: Delivery) -> None:
        """Until it is stored: with the next look for what can go out, which is then and there."""
        if not self._stopping:
            told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._verdicts.append((parcel, verdict, told))
            self._board.changed()
            if await told:
                return
        settle = partial(self._store.settle, parcel, verdict, limits=self._limits)
        await until_stored(settle, give_up=lambda: self._stopping)

    async def _pieces(self, parcel: Parcel, at: Connected) -> Delivery | None:
        """Send what is not out yet. None: the claim is no longer ours, and somebody else sees to it."""
        account = at.account
        parcel = await self._with_file(parcel, account)
        try:
            receipts = parcel.receipts
            for piece in pieces(parcel, account.channel):
                receipt = await self._one(at, replace(piece.parcel, receipts=receipts))
                if piece.last:
                    return Delivery(receipt=receipt)
                receipts = (*receipts, receipt)
                sent = partial(self._store.piece_sent, parcel, receipt, piece.after)
                if not await until_stored(sent, give_up=lambda: self._stopping):
                    return None
            raise AssertionError("a response has at least one piece")
        except DeliveryFailed as refused:
            return self._after(parcel, _understood(refused))
        except Exception as error:
            log.warning("A delivery was cut off", exc_info=error, extra={"action": "delivery_cut_off"})
            return self._cut_off(account.rule, parcel, words_of(error))

    async def _with_file(self, parcel: Parcel, account: Account) -> Parcel:
        """A long answer also comes as a file; the same one at every attempt."""
        over, names = self._settings.delivery.file_over, [file.name for file in parcel.files]
        if not wants_file(account.channel, over, operation=parcel.operation, text=parcel.text, files=names):
            return parcel
        try:
            whole = await asyncio.to_thread(keep_text, parcel.text, ANSWER, self._files)
        except OSError as error:
            # all of it is in the text too
            log.warning("An answer is sent without its file: %s", error, extra={"action": "answer_file_failed"})
            return parcel
        return replace(parcel, files=(*parcel.files, whole))

    async def _one(self, at: Connected, piece: Parcel) -> str:
        """One piece, within its time; a channel that does not even hear that it is over is left behind. The receipt."""
        seconds = self._settings.delivery.timeout_seconds
        late, name = f"it was not sent within {seconds} s", f"a sending on {piece.line}"
        receipt: Any = await within(seconds, lambda: at.channel.send(piece), late, name=name)
        if not isinstance(receipt, Receipt) or not isinstance(receipt.id, str):
            raise TypeError("the channel gave back no receipt")
        return clean(receipt.id, ID)

    def _after(self, parcel: Parcel, failure: Failure) -> Delivery:
        step = next_step(failure, parcel.attempt, self._policy, self._rng)
        if isinstance(step, RetryAt):
            return Delivery(retry_in_ms=step.delay_ms, reason=failure.reason)
        return Delivery(dead=True, reason=failure.reason)

    def _cut_off(self, rule: CutOff, parcel: Parcel, reason: str) -> Delivery:
        again = self._after(parcel, Failure(kind=FailureClass.TRANSIENT, reason=reason))
        if rule == "resend" and not again.dead:
            return again
        # after the last attempt too nobody knows: to call it dead would be a guess
        return Delivery(dropped=True, reason=reason) if rule == "drop" else Delivery(unsure=True, reason=reason)


def _understood(refused: DeliveryFailed) -> Failure:
    """What a channel said of its failure, as far as it can be: nothing of it may keep it from being stored."""
    said: Any = refused.failure
    if not isinstance(said, Failure):
        return Failure(kind=FailureClass.TRANSIENT, reason=words_of(refused))
    # a stranger's values, whatever their types promise
    kind: Any = said.kind
    asked: Any = said.retry_after
    return Failure(
        kind=kind if isinstance(kind, FailureClass) else FailureClass.TRANSIENT,
        reason=sentence(str(said.reason)),
        retry_after=asked if isinstance(asked, (int, float)) else None,
    )
