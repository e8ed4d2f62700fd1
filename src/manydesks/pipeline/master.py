"""What the name of a Spark master tells: where its executors are, and where it listens itself."""

from __future__ import annotations

import re
import socket

from manydesks.domain.errors import PipelineError
from manydesks.settings.home import reason_of

#: how one of a standalone cluster begins
STANDALONE = "spark://"
#: a machine that is there answers a call in a moment; one that is not may never say no
CALL_SECONDS = 5.0

_ADDRESS = re.compile(r"(?P<host>[^\s/:\[\]]+|\[[^\s/\[\]]+\]):(?P<port>\d{1,5})")


def is_local(master: str) -> bool:
    """Whether driver and executors are one Java on this machine: `local`, `local[2]`, `local[*]`."""
    return master == "local" or master.startswith("local[")


def is_local_cluster(master: str) -> bool:
    """`local-cluster[workers,cores,MiB]`: a cluster played by processes of this machine, to try things on."""
    return master.startswith("local-cluster[")


def addresses(master: str) -> list[tuple[str, int]]:
    """Where a standalone cluster's masters listen, of which any will do; empty: it is another kind, or Spark itself has
    to say what is wrong with the name."""
    if not master.startswith(STANDALONE):
        return []
    found = [_ADDRESS.fullmatch(part.strip()) for part in master.removeprefix(STANDALONE).split(",")]
    known = [(one["host"].strip("[]"), int(one["port"])) for one in found if one is not None]
    return known if len(known) == len(found) and all(port < 65536 for _, port in known) else []


def require_master(master: str, seconds: float = CALL_SECONDS) -> None:
    """Raises `PipelineError` if none of a standalone cluster's masters takes a connection: Spark itself would call them
    for more than a minute, and then say in its log alone that nobody was there. Whether a Spark has taken it, only
    Spark finds out."""
    failures = []
    for host, port in (listed := addresses(master)):
        try:
            socket.create_connection((host, port), timeout=seconds).close()
        except OSError as error:
            failures.append(f"{host}:{port}, {reason_of(error)}")
        except UnicodeError:  # a name that no machine can have
            failures.append(f"{host[:60]}:{port}, no name of a machine")
        else:
            return
    if listed:
        raise PipelineError(
            reason=f"nobody answers at the Spark master {master} ({'; '.join(failures)}); start it, or name another"
            " with --master or in the setting pipeline.master."
        )
