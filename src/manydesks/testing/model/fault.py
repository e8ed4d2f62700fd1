"""What goes wrong with an answer, on purpose.

An *event* is one server-sent event of a streamed answer, counted from the first; which ones there are depends on the
dialect. An answer that is not streamed has no events: each fault says what it does then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator


@dataclass(frozen=True, kw_only=True, slots=True)
class Refuse:
    """An HTTP status instead of an answer, with an error in the dialect's shape."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["refuse"] = "refuse"
    #: from 400 to 599: 429, 500, 529, 401, …
    status: int
    #: what the error says; a sentence with the status if empty
    message: str = ""
    #: such as {"retry-after": "2"}
    headers: Mapping[str, str] = field(default_factory=dict)
    #: sent as it is instead of the error, as a page of a gateway would be
    body: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """The answer stands still until `release()`, until the client leaves, or until the server is closed."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["hang"] = "hang"
    #: after so many events; None, and always when not streamed: before the status line
    after_event: int | None = None
    #: seconds between two pings while it stands still in a stream; None: silence
    ping_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """The connection ends too early."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["cut"] = "cut"
    #: after so many bytes of the body, or at its end if it is shorter
    after_byte: int | None = None
    #: after so many events; in the middle of the body when not streamed. With neither: before the status line
    after_event: int | None = None
    #: by a reset instead of an orderly end; on a Unix socket there is no difference
    reset: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Garble:
    """One event is not JSON, and the stream goes on; half a body when not streamed, in good HTTP."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["garble"] = "garble"
    #: the event that is broken, counted from 0
    event: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """An error within a stream that began well, and nothing after it; when not streamed the same as `Refuse`."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Literal["fail"] = "fail"
    #: after so many events
    after_event: int = 1
    #: the status that the same error would have had before the stream began; names its type
    status: int = 529
    message: str = ""


Fault = Annotated[Refuse | Hang | Cut | Garble | Fail, Discriminator("kind")]
