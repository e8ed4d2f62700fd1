"""What one session may take of the host: bytes, connections, time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The same for every session; each session is counted by itself."""

    #: longest body of one request; 32 MB is what the large providers take
    body_bytes: int = 32 * 1024 * 1024
    #: longest head (request line and headers) of one request
    head_bytes: int = 32 * 1024
    #: connections at one time; what comes above is hung up on
    connections: int = 64
    #: calls at one time; what comes above is told to try again. Since usage is known only at the end of a call, this
    #: also bounds by how much a budget can be overrun
    calls: int = 16
    #: time for a whole head, from its first byte
    head_seconds: float = 30.0
    #: time that a connection may stay open between two requests
    idle_seconds: float = 120.0
    #: longest pause of the desk while it sends a body or takes an answer
    desk_seconds: float = 60.0
    #: time to reach the upstream
    connect_seconds: float = 10.0
    #: longest pause of the upstream: models think in silence
    upstream_seconds: float = 600.0
    #: after a refusal, how long the rest of a body is read and thrown away, so that the desk gets to see the refusal
    linger_seconds: float = 2.0
