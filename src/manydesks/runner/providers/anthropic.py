"""The `anthropic` provider: a model behind Anthropic's messages API, or a server that speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.runner.providers.base import Descriptor, Health, Provider, Station
from manydesks.runner.providers.http_api.options import ABOUT, Options, read

BASE_URL = "https://api.anthropic.com"

DEFAULTS = Options(api="messages", context_tokens=200_000, max_tokens=8_192)


def _load(station: Station) -> Provider:
    from manydesks.runner.providers.http_api.setup import make

    return make(station, provider="anthropic", defaults=DEFAULTS)


def _check(options: Mapping[str, Any]) -> Health:
    try:
        read(options, DEFAULTS)
    except BadInput as error:
        return Health(works=False, why=str(error))
    return Health(works=True, why=f"asks {options.get('base_url', BASE_URL)} through the office's proxy")


PROVIDER = Descriptor(
    name="anthropic",
    in_process=True,
    load=_load,
    endpoint="anthropic",
    needs_model=True,
    options=ABOUT
    | {
        "context_tokens": f"{ABOUT['context_tokens']}; {DEFAULTS.context_tokens}",
        "max_tokens": f"{ABOUT['max_tokens']}; {DEFAULTS.max_tokens}",
        "cache": "whether requests are marked for the API's prompt cache; true",
    },
    read=lambda options: read(options, DEFAULTS),
    check=_check,
    summary="A model behind Anthropic's messages API, or a server that speaks it.",
)
