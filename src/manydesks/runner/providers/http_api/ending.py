"""What the end of an answer means: good as it is, good with a note for people, or no answer at all."""

from __future__ import annotations

from manydesks.runner.providers.http_api.failure import CallFailed, permanent, transient
from manydesks.runner.providers.http_api.talk import Words
from manydesks.runner.providers.http_api.wire import Reply


def note_of(reply: Reply, *, max_tokens: int | None) -> str:
    """A note for people under the answer; empty if it is good as it is.

    Raises `CallFailed` for what is no answer: a refusal, an end before the first word, and nothing at all. Silence is
    an answer if the API has counted that the model wrote something, were it only its end.
    """
    words = "".join(part.text for part in reply.parts if isinstance(part, Words)).strip()
    match reply.stop:
        case "refusal":
            why = " ".join((reply.refusal or words).split())
            raise CallFailed(
                "refused", f"the model declined to answer: {why}" if why else "the model declined to answer"
            )
        case "length" | "window":
            limit = _limit(reply, max_tokens)
            if not words:
                raise permanent(f"the model was cut off before it had an answer: it reached {limit}")
            return f"The answer ends here: it reached {limit}."
        case _ if not words and not reply.usage.output:
            raise transient("the model gave an empty answer")
        case _:
            return ""


def _limit(reply: Reply, max_tokens: int | None) -> str:
    if reply.stop == "window":
        return "the end of the model's context"
    return f"max_tokens = {max_tokens}" if max_tokens is not None else "the API's limit for one answer"
