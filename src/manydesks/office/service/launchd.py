"""launchd: an agent of the owner's session, on macOS."""

from __future__ import annotations

import contextlib
import os
import plistlib
from collections.abc import Mapping
from pathlib import Path

from manydesks.domain.errors import OfficeError
from manydesks.office.service.base import Plan, Standing, ask, says_yes, write


class Launchd:
    """As `Service`."""

    def __init__(self, mark: str, environ: Mapping[str, str]) -> None:
        self.name = f"org.manydesks.office{f'.{mark}' if mark else ''}"
        self.file = Path(environ.get("HOME") or Path.home()) / "Library" / "LaunchAgents" / f"{self.name}.plist"
        self._session = f"gui/{os.getuid()}"

    def text(self, plan: Plan) -> str:
        log = str(plan.home / "logs" / "host.log")
        about = {
            "Label": self.name,
            "ProgramArguments": list(plan.command),
            "EnvironmentVariables": {"PATH": plan.path},
            "RunAtLoad": True,
            # after a failure; an office that was told to close stays closed
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": plan.close_seconds,
            "Umask": 0o077,
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
        return plistlib.dumps(about, sort_keys=False).decode()

    def install(self, plan: Plan) -> list[str]:
        if self.file.exists():
            with contextlib.suppress(OfficeError):  # it may not be loaded
                self._bootout(plan.close_seconds)
        write(self.file, self.text(plan))
        try:
            ask(["launchctl", "bootstrap", self._session, str(self.file)])
        except OfficeError:
            self.file.unlink(missing_ok=True)
            raise
        return ["The office starts when you log in: macOS gives a person's own services no earlier moment."]

    def remove(self) -> None:
        with contextlib.suppress(OfficeError):  # it may not be loaded
            self._bootout(600)
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise OfficeError(f"{self.file} cannot be removed: {error.strerror}.") from error

    def restart(self) -> None:
        ask(["launchctl", "kickstart", "-k", f"{self._session}/{self.name}"], seconds=700.0)

    def standing(self) -> Standing:
        loaded = says_yes(["launchctl", "print", f"{self._session}/{self.name}"])
        return Standing(installed=self.file.exists(), enabled=loaded, active=loaded, lingers=None)

    def _bootout(self, seconds: float) -> None:
        ask(["launchctl", "bootout", f"{self._session}/{self.name}"], seconds=seconds + 30)
