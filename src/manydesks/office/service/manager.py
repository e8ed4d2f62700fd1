"""Which manager this machine has, and the service of a home."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence

from manydesks.domain.errors import OfficeError
from manydesks.office.service.base import CLOSE_SECONDS, Plan, Service, mark_of
from manydesks.office.service.launchd import Launchd
from manydesks.office.service.systemd import Systemd
from manydesks.settings.home import Home
from manydesks.settings.model import Settings


def service_of(home: Home, environ: Mapping[str, str], *, person: str, platform: str = sys.platform) -> Service:
    """The service of this home, there or not. Raises OfficeError where nothing manages services."""
    mark = mark_of(home, environ)
    if platform == "darwin":
        return Launchd(mark, environ)
    if shutil.which("systemctl", path=environ.get("PATH")) is None:
        raise OfficeError("There is neither systemd nor launchd here; let what starts this machine run `manydesks up`.")
    return Systemd(mark, environ, person)


def plan_for(home: Home, settings: Settings, environ: Mapping[str, str], command: Sequence[str]) -> Plan:
    """Time to close: for runs, for answers under way, and for the rest."""
    closing = settings.runner.stop_seconds + settings.delivery.timeout_seconds + 15
    return Plan(
        home=home.path,
        command=tuple(command),
        path=environ.get("PATH") or "/usr/local/bin:/usr/bin:/bin",
        close_seconds=max(CLOSE_SECONDS, closing),
    )
