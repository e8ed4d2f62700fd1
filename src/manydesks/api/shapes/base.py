"""What all shapes share."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from manydesks.domain.ids import NAME, PUBLIC
from manydesks.domain.insight import TABLES

#: no number of ours is larger
MOST = 2**63 - 1


class Given(BaseModel):
    """What a client sends: what is not known here is refused, and "5" is not 5."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, allow_inf_nan=False)


class Shown(BaseModel):
    """What a client gets. More may be added; nothing is renamed."""

    model_config = ConfigDict(alias_generator=to_camel)


class Nothing(Given):
    """An empty object."""


#: what is meant by a client that sends no body at all
NOTHING = Nothing()


class Ok(Shown):
    ok: bool = Field(default=True, description="Always `true`: what was not done is an error.")


class Error(Shown):
    """What went wrong, in one sentence."""

    error: str
    message_id: str | None = Field(default=None, description="Of a message that is known already.")
    version: str | None = Field(default=None, description="What it is now, of an entity that was changed meanwhile.")
    first_seq: int | None = Field(default=None, description="Where the ledger begins.")


def _whole(value: object) -> object:
    """JSON has one kind of number: 5.0 is 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _whole_each(value: object) -> object:
    return {name: _whole(one) for name, one in value.items()} if isinstance(value, dict) else value


def _iso_day(value: object) -> object:
    if isinstance(value, str) and _DAY.fullmatch(value) is None:
        raise ValueError("a day is written as in 2026-01-31")
    return value


def _digits(value: object) -> object:
    """Of a parameter: "1_000", " 1" and "+1" are no numbers, though Python takes them for some."""
    if isinstance(value, str) and _NUMBER.fullmatch(value) is None:
        raise ValueError("a number is written in digits")
    return value


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
#: behind the bounds of a number, which the document would not know otherwise
WHOLE = BeforeValidator(_whole)
#: the same, of a table of numbers
WHOLE_EACH = BeforeValidator(_whole_each)
DIGITS = BeforeValidator(_digits)
Day = Annotated[date, BeforeValidator(_iso_day)]

#: something that can be read, of any length; a zero byte is in no text that people write
TEXT = r"^[^\x00]*[^\s\x00-\x1f\x7f-\x9f][^\x00]*$"
PRINTED = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"
#: as `base64.b64decode` takes it when it is strict, which is where it is refused, in better words
BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
TABLE = rf"^(?:{'|'.join(TABLES)})$"
AGENT = rf"^(?:{NAME.pattern})$"
PUBLIC_ID = rf"^(?:{PUBLIC.pattern})$"
SOME = r"^[^\x00]+$"
NO_ZERO = r"^[^\x00]*$"
ABSOLUTE = r"^/[^\x00]*$"
EVENT_NUMBER = r"^[0-9]{1,18}$"
HISTORY = r"^[0-9a-f]{1,16}$"
SECRET_NAME = r"^[a-z][a-z0-9_]{0,63}$"
#: what each accepts, for people; a test looks that none is missing
IN_WORDS = {
    TEXT: "it must have something in it that can be read, and no zero byte",
    PRINTED: "it must be one line that can be printed",
    AGENT: "it must be 1 to 32 lowercase letters, digits, '-' or '_', beginning and ending with a letter or digit",
    PUBLIC_ID: "it must be 1 to 128 letters, digits, or one of '_.:-', beginning and ending with a letter or digit",
    SOME: "it must have no zero byte",
    NO_ZERO: "it must have no zero byte",
    ABSOLUTE: "it must be the absolute path of a file, which begins with '/', or an object with 'name' and 'content'",
    EVENT_NUMBER: "it must be the number of an event, at most 18 digits",
    HISTORY: "it must be the name of a history, as an answer has it: at most 16 hexadecimal digits in lower case",
    SECRET_NAME: "a secret's name must be 1 to 64 of a-z, 0-9 and '_', beginning with a letter",
    TABLE: f"it must be one of {', '.join(TABLES)}",
}

Text = Annotated[str, Field(min_length=1, pattern=TEXT, description="Not empty.")]
Word = Annotated[str, Field(min_length=1, max_length=256, pattern=SOME)]
MaybeWord = Annotated[str, Field(max_length=256, pattern=NO_ZERO)]
AgentName = Annotated[str, Field(max_length=32, pattern=AGENT)]
ClientId = Annotated[str, Field(max_length=128, pattern=PUBLIC_ID)]
Version = Annotated[
    str | None,
    Field(
        max_length=64, description="What was read; if it is another one by now the answer is 409. Without it: merge."
    ),
]

AgentId = Annotated[str, Path(max_length=32, pattern=AGENT, description="An agent's id.")]
TeamId = Annotated[str, Path(max_length=32, pattern=AGENT, description="A team's id.")]
Id = Annotated[str, Path(max_length=128, pattern=PUBLIC_ID)]
Number = Annotated[int, Path(ge=0, le=MOST)]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most."), DIGITS]
After = Annotated[int, Query(ge=0, le=MOST, description="Only what has a higher number."), DIGITS]
Before = Annotated[int, Query(ge=1, le=MOST, description="Only what has a lower number."), DIGITS]
OfAgent = Annotated[str | None, Query(max_length=32, pattern=AGENT, description="Only what is about this agent.")]


class File(Shown):
    name: str
    bytes: int
    sha256: str
    path: str = Field(description="Relative to the office's home.")


class FileGiven(Given):
    """A file that goes with a message."""

    name: Annotated[str, Field(min_length=1, max_length=200, description="A plain file name.")]
    content: Annotated[str, Field(description="What is in it, as base64.", json_schema_extra={"pattern": BASE64})]


FilePath = Annotated[
    str,
    Field(
        max_length=4096,
        pattern=ABSOLUTE,
        description="Where a file is on the office's machine; only from a client there that shows the token.",
    ),
]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route may refuse, for the document."""
    return {status: {"model": Error, "description": WORDS[status]} for status in statuses}


WORDS = {
    400: "What was given is not allowed; the sentence says what is.",
    401: "The token is missing or wrong.",
    403: "The request came by a name, or from a page, that is not permitted.",
    404: "There is no such thing.",
    408: "The body has not come to its end in time.",
    409: "It is not in a state that allows this, or was changed meanwhile.",
    410: "The events that were asked for are no longer kept.",
    413: "The body or the message is too large.",
    415: "The body is not `application/json`.",
    429: "Too many requests, or too many wrong tokens.",
    500: "A fault of the office; its log says more.",
    503: "The office cannot do this now.",
}
