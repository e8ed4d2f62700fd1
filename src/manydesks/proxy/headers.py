"""Which headers cross the proxy, in either direction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from manydesks.proxy.mask import Mask
from manydesks.proxy.upstream import Upstream


def to_upstream(
    headers: Iterable[tuple[bytes, bytes]], upstream: Upstream, *, method: str, key: str | None, length: int | None
) -> list[tuple[str, str]]:
    """What the upstream gets: the desk's headers that may pass, our framing, the real key. No length: chunks."""
    passing = upstream.dialect.request_headers
    # a header that the owner chose for the key is never the desk's, whatever the list says
    reserved = {upstream.key_header or upstream.dialect.key_header}
    named = [(name.decode("ascii"), value.decode("latin-1")) for name, value in headers]
    sent = [(name, value) for name, value in named if _passes(name, passing) and name not in reserved]
    sent.append(("host", upstream.host))
    # not compressed: usage is read from the answer, and the key looked for in it
    sent.append(("accept-encoding", "identity"))
    if method == "POST":
        sent.append(("transfer-encoding", "chunked") if length is None else ("content-length", str(length)))
    if key is not None:
        sent.append(upstream.auth(key))
    return sent


def to_desk(
    headers: Sequence[tuple[bytes, bytes]], upstream: Upstream, mask: Mask, *, whole: bool
) -> list[tuple[bytes, bytes]]:
    """What the desk gets. `whole`: the body is handed on byte for byte, so its length still holds."""
    passing = upstream.dialect.answer_headers
    lowered = [(name.lower(), value) for name, value in headers]
    return [
        (name, mask.whole(value))
        for name, value in lowered
        if _passes(name.decode("latin-1"), passing) or (whole and name == b"content-length")
    ]


def _passes(name: str, passing: frozenset[str]) -> bool:
    return name in passing or any(entry.endswith("-") and name.startswith(entry) for entry in passing)
