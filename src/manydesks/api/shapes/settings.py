"""The settings, made from those of the office itself: no key is missing here, and none has other bounds."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

from pydantic import ConfigDict, Field, WithJsonSchema, create_model

from manydesks.api.shapes.base import AGENT, SECRET_NAME, WHOLE, WHOLE_EACH, Given, Shown, Version
from manydesks.settings.model import Option, PriceSettings, Section, TableName, UpstreamSettings, sections


class Partial(Given):
    """A part of the settings. None takes a key out, so that its default counts again."""

    model_config = ConfigDict(alias_generator=None)


class Secret(Shown):
    set: bool = True


def _numbers(kind: Any) -> tuple[Any, ...]:
    if kind is int:
        return (WHOLE,)
    # the second of a dict's arguments is what it holds, with its bounds
    return (WHOLE_EACH,) if get_origin(kind) is dict and get_args(get_args(kind)[1])[:1] == (int,) else ()


def _partial(name: str, section: type[Section]) -> type[Partial]:
    fields: dict[str, Any] = {}
    for key, field in section.model_fields.items():
        kind: Any = field.annotation
        marks = (*field.metadata, *_numbers(kind))
        if marks:
            kind = Annotated[(kind, *marks)]
        fields[key] = (kind | None, Field(default=None, description=field.description))
    made: type[Partial] = create_model(f"{name.title()}Given", __base__=Partial, __doc__=section.__doc__, **fields)
    return made


_SECTIONS: dict[str, Any] = {
    name: (_partial(name, section), Field(default=None, description=(section.__doc__ or "").strip()))
    for name, section in sections().items()
}
#: the document says which names there are; one that is none is refused in the settings' own words
Key = Annotated[TableName, WithJsonSchema({"type": "string", "pattern": AGENT})]
_TABLES: dict[str, Any] = {
    "upstreams": (dict[Key, _partial("upstream", UpstreamSettings) | None], None),  # type: ignore[misc]
    "prices": (dict[Key, _partial("price", PriceSettings) | None], None),  # type: ignore[misc]
    "providers": (dict[Key, dict[str, Option | None] | None], None),
    "channels": (dict[Key, dict[str, Option | None] | None], None),
}
_SECRETS = Annotated[
    dict[
        Annotated[str, Field(pattern=SECRET_NAME)],
        Annotated[str, Field(min_length=1, max_length=65_536)] | None,
    ],
    Field(description="Values by name; None forgets one. They never come back."),
]

SettingsGiven: type[Partial] = create_model(
    "SettingsGiven", __base__=Partial, **_SECTIONS, **_TABLES, secrets=(_SECRETS, None), version=(Version, None)
)


class SettingsShown(Shown):
    """Every section as it counts now, and beside them these."""

    model_config = ConfigDict(extra="allow")

    version: str
    secrets: dict[str, Secret] = Field(description="Their names; values never leave.")
    next_start: list[str] = Field(description="Settings that were changed and take effect at the next start.")


class SettingsChanged(SettingsShown):
    ok: bool = True
    settings: SettingsShown = Field(description="The same once more.")
