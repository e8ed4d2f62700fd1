"""What one call of `manydesks` knows: click's context object.

Everything in it is made when first asked for, so that a command pays only for what it uses; a test hands in its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manydesks.cli.output import Output
    from manydesks.domain.clock import Clock
    from manydesks.office.door import Door
    from manydesks.settings.home import Home
    from manydesks.store.reader import Reader


def _stdin_is_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


class Invocation:
    """The common options, and the ways into the office."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        home: Home | None = None,
        door: Door | None = None,
        clock: Clock | None = None,
        interactive: Callable[[], bool] = _stdin_is_a_terminal,
    ) -> None:
        #: the environment that settings and colours are taken from
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        #: `--home` as given, None if it was not
        self.home_option: str | None = None
        #: `--json` was given
        self.json = False
        #: whether a person can be asked
        self.interactive = interactive
        self._home = home
        self._door = door
        self._clock = clock
        self._reader: Reader | None = None

    @property
    def out(self) -> Output:
        """Where to print; made anew, as `--json` may come late and the streams may be replaced."""
        from manydesks.cli.output import Output

        return Output(sys.stdout, sys.stderr, json=self.json, environ=self.environ)

    @property
    def home(self) -> Home:
        if self._home is None:
            from manydesks.settings.home import Home

            self._home = Home.resolve(self.home_option, self.environ)
        return self._home

    @property
    def door(self) -> Door:
        if self._door is None:
            from manydesks.office.door import Door

            self._door = Door(self.home)
        return self._door

    @property
    def reader(self) -> Reader:
        """One reader for the whole call."""
        if self._reader is None:
            self._reader = self.door.reader()
        return self._reader

    def close(self) -> None:
        """Let go of the reader: while it waits it has a socket file in the office's folder."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    @property
    def clock(self) -> Clock:
        if self._clock is None:
            from manydesks.domain.clock import SystemClock

            self._clock = SystemClock()
        return self._clock
