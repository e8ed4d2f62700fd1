"""Scripts as JSON: a list of turns, or an object with `turns`, `default` and `shared`. Keys are the fields' names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from pydantic import TypeAdapter, ValidationError

from manydesks.domain.errors import BadInput
from manydesks.testing.model.script import Script, echo
from manydesks.testing.model.turn import Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    turns: tuple[Turn, ...] = ()
    default: Turn | None = None
    shared: bool = False


def load_script(path: Path) -> Script:
    """The script in a file. Raises BadInput with the file's name and the first thing that is wrong."""
    try:
        return read_script(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(reason=f"the script {path} cannot be read: {error}") from None
    except BadInput as error:
        raise BadInput(reason=f"the script {path}: {error.details['reason']}") from None


def read_script(text: str) -> Script:
    """The script that a JSON text holds. Raises BadInput with the place of the first thing that is wrong."""
    is_list = text.lstrip().startswith("[")
    try:
        if is_list:
            return Script(turns=_list().validate_json(text, strict=True))
        written = _object().validate_json(text, strict=True)
    except ValidationError as error:
        raise BadInput(reason=_words(error, "turns" if is_list else "")) from None
    return Script(turns=written.turns, default=written.default or echo, shared=written.shared)


@cache
def _list() -> TypeAdapter[tuple[Turn, ...]]:
    return TypeAdapter(tuple[Turn, ...])


@cache
def _object() -> TypeAdapter[_Written]:
    return TypeAdapter(_Written)


def _words(error: ValidationError, top: str) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place = top
    for part in first["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    return f"{place or 'the text'}: {first['msg']}"
