"""Each verb, with its arguments checked, as something to run in a transaction: for `Queue` and `AsyncQueue` alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from manydesks.domain.errors import BadInput
from manydesks.domain.failure import Failure, FailureClass, RetryAt, RetryPolicy, next_step
from manydesks.queue import checks, jobs, letters
from manydesks.queue.jobs import Terms
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.message import Job, Message
from manydesks.queue.state import state_of

T = TypeVar("T")
Operation = Callable[[JobsTransaction], T]

MOST_RECEIVED = 10_000
REASON_CHARACTERS = 2_000


class Operations:
    """The verbs of one queue."""

    def __init__(self, terms: Terms, *, max_bytes: int, backoff: float, grain: int) -> None:
        self.terms = terms
        #: milliseconds by which the clock may be read too early
        self._grain = grain
        self._max_bytes = max_bytes
        self._retry = RetryPolicy(base_seconds=backoff, max_attempts=terms.max_attempts + 1)
        self._backoff = backoff
        self._rng = random.Random()

    def under(self, terms: Terms) -> Operations:
        """The same verbs for another worker."""
        return Operations(terms, max_bytes=self._max_bytes, backoff=self._backoff, grain=self._grain)

    def send(self, body: Any, delay: float, priority: int, key: str | None, lane: str | None) -> Operation[int]:
        text = checks.body_text(body, self._max_bytes)
        wait, queue = self._check_sending(delay, priority, lane), self.terms.queue
        if key is not None:
            checks.word(key, "A key")
        return lambda tx: jobs.send(tx, queue, (text,), delay_ms=wait, priority=priority, key=key, lane=lane)[0]

    def send_batch(self, bodies: Iterable[Any], delay: float, priority: int, lane: str | None) -> Operation[list[int]]:
        given: Any = bodies
        if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
            raise BadInput(f"A batch must be a list of bodies, not {bodies!r:.60}.")
        texts = [checks.body_text(body, self._max_bytes) for body in bodies]
        if len(texts) > checks.MOST_BODIES:
            raise BadInput(f"One batch may have {checks.MOST_BODIES} bodies; this one has {len(texts)}.")
        wait, queue = self._check_sending(delay, priority, lane), self.terms.queue
        if not texts:
            return lambda tx: []
        return lambda tx: jobs.send(tx, queue, texts, delay_ms=wait, priority=priority, key=None, lane=lane)

    def receive(self) -> Operation[Message | None]:
        terms = self.terms

        def one(tx: JobsTransaction) -> Message | None:
            received = jobs.receive(tx, terms, 1)
            return received[0] if received else None

        return one

    def receive_batch(self, most: int) -> Operation[list[Message]]:
        limit = checks.whole(most, "A batch", least=1, most=MOST_RECEIVED)
        return lambda tx: jobs.receive(tx, self.terms, limit)

    def extend(self, message: Message, seconds: float) -> Operation[bool]:
        checks.message(message)
        lease = checks.seconds_ms(seconds, "A lease", least=0.001) + self._grain
        return lambda tx: jobs.extend(tx, self.terms, message, lease)

    def complete(self, message: Message) -> Operation[bool]:
        checks.message(message)
        return lambda tx: jobs.complete(tx, self.terms, message)

    def complete_batch(self, messages: Iterable[Message]) -> Operation[list[bool]]:
        given = checks.messages(messages)
        return lambda tx: [jobs.complete(tx, self.terms, message) for message in given]

    def give_back(self, messages: Iterable[Message]) -> Operation[list[bool]]:
        """What nobody wants any more, uncounted."""
        given = tuple(messages)
        return lambda tx: [jobs.release(tx, self.terms, message) for message in given]

    def fail(self, message: Message, reason: str, retry_in: float | None, permanent: bool) -> Operation[bool]:
        checks.message(message)
        wait = self._back_off(message.attempt) if retry_in is None else checks.seconds_ms(retry_in, "retry_in")
        text = str(reason)[:REASON_CHARACTERS].encode(errors="replace").decode()
        return lambda tx: jobs.fail(tx, self.terms, message, text, wait_ms=wait, permanent=permanent)

    def release(self, message: Message) -> Operation[bool]:
        checks.message(message)
        return lambda tx: jobs.release(tx, self.terms, message)

    def dead_letters(self, after: int, limit: int) -> Operation[list[Job]]:
        most = checks.whole(limit, "A limit", least=1, most=MOST_RECEIVED)
        last = checks.whole(after, "after", least=0, most=checks.MOST_ID)
        return lambda tx: letters.dead_letters(tx, self.terms.queue, after=last, limit=most)

    def list(self, status: str | None, after: int, limit: int) -> Operation[list[Job]]:
        most = checks.whole(limit, "A limit", least=1, most=MOST_RECEIVED)
        state = state_of(status)
        last = checks.whole(after, "after", least=0, most=checks.MOST_ID)
        return lambda tx: letters.listed(tx, self.terms.queue, state, after=last, limit=most)

    def show(self, job: int) -> Operation[Job]:
        id = checks.job_id(job)
        return lambda tx: letters.show(tx, self.terms.queue, id)

    def cancel(self, job: int) -> Operation[bool]:
        id = checks.job_id(job)
        return lambda tx: letters.cancel(tx, self.terms.queue, id)

    def requeue(self, job: int) -> Operation[None]:
        id = checks.job_id(job)
        return lambda tx: letters.requeue(tx, self.terms.queue, id)

    def hasten(self, job: int) -> Operation[None]:
        id = checks.job_id(job)
        return lambda tx: letters.hasten(tx, self.terms.queue, id)

    def drop(self, job: int) -> Operation[None]:
        id = checks.job_id(job)
        return lambda tx: letters.drop(tx, self.terms.queue, id)

    def pause(self, paused: bool) -> Operation[None]:
        return lambda tx: letters.pause(tx, self.terms.queue, paused)

    def stats(self) -> Operation[dict[str, int]]:
        return lambda tx: letters.stats(tx, self.terms.queue)

    def sweep_step(self) -> Operation[bool]:
        return jobs.sweep_step

    def last_id(self) -> Operation[int]:
        return lambda tx: tx.last("position")

    def purge_step(self, after: int, upto: int) -> Operation[tuple[int, int | None]]:
        return lambda tx: letters.purge_step(tx, self.terms.queue, after, upto)

    def prune_step(self, older_ms: int, after: int, upto: int) -> Operation[tuple[int, int | None]]:
        return lambda tx: letters.prune_step(tx, self.terms.queue, tx.now - older_ms, after, upto)

    def prune_events_step(self, older_ms: int) -> Operation[int]:
        return lambda tx: letters.prune_events_step(tx, tx.now - older_ms)

    def _check_sending(self, delay: float, priority: int, lane: str | None) -> int:
        """The delay in milliseconds."""
        if lane is not None:
            checks.word(lane, "A lane")
        if priority != 0 or priority is False:
            checks.whole(priority, "A priority", least=-checks.PRIORITY, most=checks.PRIORITY)
        return 0 if delay == 0 and delay is not False else checks.seconds_ms(delay, "A delay")

    def _back_off(self, attempt: int) -> int:
        failed = Failure(kind=FailureClass.TRANSIENT, reason="")
        step = next_step(failed, min(attempt, self.terms.max_attempts), self._retry, self._rng)
        return step.delay_ms if isinstance(step, RetryAt) else 0
