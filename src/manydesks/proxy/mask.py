"""Blots out the key, should an upstream repeat it."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

#: shorter values occur in ordinary text, where masking them would only garble it
SHORTEST = 6


class Mask:
    """One answer's worth. What is blotted out keeps its length, so a Content-Length stays true.

    Not promised: to find a key that was cut in two by other text, or encoded in another way than JSON or a URL.
    """

    def __init__(self, key: str | None) -> None:
        spellings = {key, json.dumps(key)[1:-1], quote(key, "")} if key is not None and len(key) >= SHORTEST else set()
        # the longest first: one spelling may be the beginning of another
        self._forms = sorted((spelling.encode() for spelling in spellings), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if self._forms else None
        self._held = b""

    def whole(self, text: bytes) -> bytes:
        """A text that is complete in itself, such as a header."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: b"*" * len(found[0]), text)

    def feed(self, chunk: bytes) -> bytes:
        """The next piece of a stream; an end that might be the beginning of the key is held back, nothing else is."""
        if self._pattern is None:
            return chunk
        text = self.whole(self._held + chunk)
        held = max((self._overlap(text, form) for form in self._forms), default=0)
        cut = len(text) - held
        self._held = text[cut:]
        return text[:cut]

    def finish(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return held

    @staticmethod
    def _overlap(text: bytes, form: bytes) -> int:
        """The longest end of the text that begins the form."""
        for size in range(min(len(form) - 1, len(text)), 0, -1):
            if text.endswith(form[:size]):
                return size
        return 0
