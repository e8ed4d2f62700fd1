"""systemd: a unit of the owner's own manager."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from manydesks.domain.errors import OfficeError
from manydesks.office.service.base import Plan, Standing, ask, says_yes, write

#: `manydesks service install` writes it anew each time; KillMode=mixed: desks are ended by the office, not beside it
UNIT = """\
# Written by `manydesks service install`; `manydesks service remove` takes it away.
[Unit]
Description=ManyDesks office on {description}
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={command}
Environment={path}
UMask=0077
StandardOutput=append:{log}
StandardError=append:{log}
Restart=on-failure
RestartSec=3
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec={close_seconds}
Delegate=yes

[Install]
WantedBy=default.target
"""

LINGER = Path("/var/lib/systemd/linger")


class Systemd:
    """As `Service`."""

    def __init__(self, mark: str, environ: Mapping[str, str], person: str) -> None:
        self.name = f"manydesks{f'-{mark}' if mark else ''}.service"
        config = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
        self.file = Path(config) / "systemd" / "user" / self.name
        self._person = person

    def text(self, plan: Plan) -> str:
        return UNIT.format(
            description=_specifiers(str(plan.home)),
            command=" ".join(_word(word) for word in plan.command),
            path=_word(f"PATH={plan.path}", variables=False),
            log=_specifiers(str(plan.home / "logs" / "host.log")),
            close_seconds=plan.close_seconds,
        )

    def install(self, plan: Plan) -> list[str]:
        before = self.file.read_text(encoding="utf-8") if self.file.exists() else None
        write(self.file, self.text(plan))
        try:
            _manager("daemon-reload")
            _manager("enable", self.name)
            _manager("restart", self.name, seconds=plan.close_seconds + 30.0)
        except OfficeError:
            self._put_back(before)
            raise
        return self._linger()

    def remove(self) -> None:
        # a manager that is not there has nothing to stop; the file goes in any case
        with contextlib.suppress(OfficeError):
            _manager("disable", "--now", self.name, seconds=700.0)
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise OfficeError(f"{self.file} cannot be removed: {error.strerror}.") from error
        with contextlib.suppress(OfficeError):
            _manager("daemon-reload")

    def restart(self) -> None:
        _manager("restart", self.name, seconds=700.0)

    def standing(self) -> Standing:
        return Standing(
            installed=self.file.exists(),
            enabled=says_yes(["systemctl", "--user", "--quiet", "is-enabled", self.name]),
            active=says_yes(["systemctl", "--user", "--quiet", "is-active", self.name]),
            lingers=(LINGER / self._person).exists(),
        )

    def _linger(self) -> list[str]:
        """The owner's manager, and with it the office, from the start of the machine on, not from the first login."""
        if (LINGER / self._person).exists():
            return []
        try:
            ask(["loginctl", "enable-linger", self._person])
        except OfficeError as error:
            return [
                f"The office starts when you log in, not with the machine, since lingering is off ({str(error)[:-1]}); "
                f"`sudo loginctl enable-linger {self._person}` turns it on."
            ]
        return []

    def _put_back(self, before: str | None) -> None:
        with contextlib.suppress(OSError, OfficeError):
            if before is None:
                _manager_quietly("disable", self.name)
                self.file.unlink(missing_ok=True)
            else:
                write(self.file, before)
            _manager_quietly("daemon-reload")


def _manager(*words: str, seconds: float = 30.0) -> None:
    try:
        ask(["systemctl", "--user", *words], seconds=seconds)
    except OfficeError as error:
        bus = "bus" in str(error) and not os.environ.get("XDG_RUNTIME_DIR")
        hint = " Log in as yourself, not by su or sudo: only then you have a service manager." if bus else ""
        raise OfficeError(f"{error}{hint}") from error


def _manager_quietly(*words: str) -> None:
    with contextlib.suppress(OfficeError):
        _manager(*words)


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _word(text: str, *, variables: bool = True) -> str:
    """One word of a command line as systemd reads it: quoted, nothing in it means anything."""
    text = _specifiers(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text.replace("$", "$$") if variables else text}"'
