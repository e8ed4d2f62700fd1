"""What fits into a model's context: whole exchanges are left out from the front, as few as it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manydesks.runner.providers.http_api.shape import packed
from manydesks.runner.providers.http_api.talk import Call, Entry, Exchange, File, Opaque, Part, Result, Words

#: bytes of text per token before an API has said what it counts: few, so that the first guess errs on the safe side
DENSITY = 3.0
#: whatever an API counts, a token is within this
DENSITIES = (0.5, 8.0)
#: bytes that the envelope of a part takes
ENVELOPE = 12

#: an image costs about this many tokens, whatever its size in bytes
IMAGE_TOKENS = 1_600
#: bytes of a document, or of sound, per token; and the least that one costs
DOCUMENT_DENSITY = 25
DOCUMENT_TOKENS = 2_000

#: when something has to go, it goes down to this part of the budget: a beginning that moves with every turn would
#: defeat the API's cache
ROOM = 0.75


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """What something costs in a context."""

    #: of text, UTF-8
    bytes: int = 0
    #: that do not depend on the text
    tokens: int = 0

    def __add__(self, other: Weight) -> Weight:
        return Weight(bytes=self.bytes + other.bytes, tokens=self.tokens + other.tokens)

    def estimate(self, density: float) -> int:
        return self.tokens + round(self.bytes / density)


def weigh(entries: Iterable[Entry]) -> Weight:
    return sum((_part(part) for entry in entries for part in entry.parts), Weight())


def text_weight(text: str) -> Weight:
    return Weight(bytes=len(text.encode(errors="replace")))


def corrected(density: float, weight: Weight, counted: int | None) -> float:
    """The density after a call of this weight whose tokens the API has counted; as it was if that says nothing."""
    if counted is None or counted <= weight.tokens or weight.bytes == 0:
        return density
    least, most = DENSITIES
    return min(max(weight.bytes / (counted - weight.tokens), least), most)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    exchanges: tuple[Exchange, ...]
    #: how many were left out
    dropped: int


def trim(exchanges: Sequence[Exchange], *, fixed: Weight, budget: int, density: float) -> Kept:
    """The newest exchanges that fit into `budget` tokens together with `fixed`, which has to be there in any case.

    All of them if they fit. If not, so few that there is room again for some turns.
    """
    weights = [weigh(exchange.entries) for exchange in exchanges]
    if sum(weights, fixed).estimate(density) <= budget:
        return Kept(exchanges=tuple(exchanges), dropped=0)
    total, kept = fixed, 0
    for weight in reversed(weights):
        total += weight
        if total.estimate(density) > budget * ROOM:
            break
        kept += 1
    return Kept(exchanges=tuple(exchanges[len(exchanges) - kept :]), dropped=len(exchanges) - kept)


def _part(part: Part) -> Weight:
    envelope = Weight(bytes=ENVELOPE)
    match part:
        case Words() | Result():
            return envelope + text_weight(part.text)
        case Call():
            return envelope + text_weight(part.name + packed(part.arguments))
        case Opaque():
            return envelope + text_weight(packed(part.data))
        case File() if part.mime.startswith("image/"):
            return Weight(tokens=IMAGE_TOKENS)
        case File():
            return Weight(tokens=max(part.bytes // DOCUMENT_DENSITY, DOCUMENT_TOKENS))
