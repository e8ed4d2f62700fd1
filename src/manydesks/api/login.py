"""Who is let in: whoever shows the office's token. Wrong ones are answered late, and the right one never is."""

from __future__ import annotations

import hmac
import logging

from manydesks.domain.clock import Clock
from manydesks.domain.errors import HomeError, SettingsError
from manydesks.settings.home import Home
from manydesks.settings.token import read_token

log = logging.getLogger(__name__)

#: wrong tokens of one address that cost nothing: a program that was not told of a new one
FREE = 3
#: then each waits twice as long as the one before
FIRST_SECONDS = 0.25
MOST_SECONDS = 2.0
#: after so long without a wrong one, an address begins anew
FORGIVEN_MS = 60_000
#: addresses that are remembered
MOST_ADDRESSES = 10_000
#: answers that are kept waiting at one time; with more, the next is refused at once
MOST_WAITING = 64


class Token:
    """The token as it is in the home now: a command may have made a new one."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._shape: tuple[int, int, int, int] | None = None
        self._value: bytes | None = None

    def matches(self, given: bytes) -> bool:
        """In the same time, whatever was given."""
        known = self._current()
        return hmac.compare_digest(given, known if known is not None else b"") and known is not None

    def _current(self) -> bytes | None:
        try:
            found = self._home.token_file.stat()
            shape = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
        except OSError:
            self._shape = self._value = None
            return None
        if shape != self._shape:
            self._shape = shape
            try:
                token = read_token(self._home)
            except (SettingsError, HomeError) as error:
                log.error("Nobody is let in: %s", error, extra={"action": "token_refused"})
                token = None
            self._value = token.encode() if token is not None else None
        return self._value


class Slowing:
    """How long a wrong token waits for its answer, by the address it came from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: address → wrong ones in a row, and when the last came
        self._wrong: dict[str, tuple[int, int]] = {}
        self._waiting = 0

    def wrong(self, address: str) -> float | None:
        """One more from there: for how many seconds its answer waits. None: too many wait already."""
        now = self._clock.monotonic()
        count, last = self._wrong.pop(address, (0, now))
        count = count + 1 if now - last < FORGIVEN_MS else 1
        # put back at the end: the first ones are those that were quiet longest
        self._wrong[address] = count, now
        if len(self._wrong) > MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
        if count <= FREE:
            return 0.0
        if self._waiting >= MOST_WAITING:
            return None
        return float(min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(count - FREE - 1, 10)))

    def __enter__(self) -> None:
        self._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
