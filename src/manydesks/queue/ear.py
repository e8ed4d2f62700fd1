"""Hears commits of this and other processes, and says so to whoever waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import apsw

from manydesks.queue.file import JobsFile
from manydesks.store.database import open_reader
from manydesks.store.wake import POLL_SECONDS, Listener

log = logging.getLogger(__name__)


class Ear:
    """Calls `heard` from a thread of its own after every commit that may matter; a lost one costs half a second."""

    def __init__(self, file: JobsFile, heard: Callable[[], None]) -> None:
        self._file = file
        self._db = open_reader(file.path)
        self._listener = Listener(file.ear(), self._db)
        self._heard = heard
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="queue-ear", daemon=True)

    def __enter__(self) -> Ear:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listener.nudge()
        self._thread.join()
        self._listener.close()
        self._db.close()
        self._file.tidy_ears()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                heard = self._listener.wait(POLL_SECONDS)
            except apsw.Error as error:
                # a bad moment of the disk; what was not seen may have happened
                log.warning("%s", error, extra={"action": "ear_failed"})
                self._ended.wait(POLL_SECONDS)
                heard = True
            if heard:
                self._heard()
