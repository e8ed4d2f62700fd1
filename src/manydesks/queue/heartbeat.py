"""Keeps a processor's claims alive: in a thread of its own, so that a busy loop or a long handler loses none."""

from __future__ import annotations

import logging
import threading

from manydesks.domain.errors import StoreError
from manydesks.queue import jobs
from manydesks.queue.file import JobsFile
from manydesks.queue.jobs import Terms

log = logging.getLogger(__name__)


class Heartbeat:
    """Extends every claim of a worker, three times in a lease."""

    def __init__(self, file: JobsFile, terms: Terms) -> None:
        self._file = file
        self._terms = terms
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="queue-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(self._terms.lease_ms / 3000):
            try:
                self._file.writer.run(lambda tx: jobs.extend_worker(tx, self._terms))
            except StoreError as error:
                # the next beat may get through; if none does, the leases end, and that is what they are for
                log.warning("%s", error, extra={"action": "heartbeat_failed"})
