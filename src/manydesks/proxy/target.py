"""What a request asks for, read from its first line and its framing; pure decisions.

Everything that two readers of HTTP could understand differently is refused, not repaired.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from manydesks.proxy.refusal import Refused

#: no %, no backslash, no second slash in a row: what is open to desks needs none of these
_TARGET = re.compile(r"/(?P<upstream>[a-z0-9_-]{1,32})(?P<path>(?:/[A-Za-z0-9_.:-]+)*)(?:\?(?P<query>[!-\"$-~]*))?")
_QUERY_BYTES = 2048

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True)
class Target:
    #: its name, which need not exist
    upstream: str
    #: what follows it, "" or with a leading slash; no . or .. in it
    path: str
    #: as the desk wrote it
    query: str


def read_target(raw: bytes) -> Target:
    """Raises `Refused` for whole URLs, `*`, and paths that are not plain."""
    text = raw.decode("latin-1")
    found = _TARGET.fullmatch(text)
    if found is None or len(found["query"] or "") > _QUERY_BYTES:
        raise Refused(400, "bad_path", "A path is /<upstream>/<path> of letters, digits and / _ . : - only.")
    if any(part in (".", "..") for part in found["path"].split("/")):
        raise Refused(400, "bad_path", "A path must not hold . or .. as a part.")
    return Target(upstream=found["upstream"], path=found["path"], query=found["query"] or "")


def passing_query(query: str, names: frozenset[str]) -> str:
    """The parts of a query whose names may pass."""
    return "&".join(part for part in query.split("&") if part.partition("=")[0] in names)


def body_length(headers: Headers, *, method: str, http_version: bytes, most: int) -> int | None:
    """How long the body says it is; None: it comes in chunks. Raises `Refused` if that is too much, or not clear."""
    lengths = [value for name, value in headers if name == b"content-length"]
    chunked = [value for name, value in headers if name == b"transfer-encoding"]
    if chunked and (lengths or http_version != b"1.1"):
        raise Refused(400, "bad_framing", "A request has Content-Length or Transfer-Encoding, not both.")
    length = None if chunked else int(lengths[0]) if lengths else 0
    if method != "POST" and length != 0:
        raise Refused(400, "bad_framing", f"A {method} request has no body.")
    if length is not None and length > most:
        raise Refused(413, "too_large", f"The request has {length} bytes; at most {most} are forwarded.")
    return length
