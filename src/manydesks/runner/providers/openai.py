"""The `openai` provider: a model behind OpenAI's chat completions or responses, or a server that speaks one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.runner.providers.base import Descriptor, Health, Provider, Station
from manydesks.runner.providers.http_api.options import ABOUT, Options, read

BASE_URL = "https://api.openai.com/v1"

DEFAULTS = Options(api="chat", context_tokens=128_000, max_tokens=None)


def _load(station: Station) -> Provider:
    from manydesks.runner.providers.http_api.setup import make

    return make(station, provider="openai", defaults=DEFAULTS)


def _check(options: Mapping[str, Any]) -> Health:
    try:
        found = read(options, DEFAULTS)
    except BadInput as error:
        return Health(works=False, why=str(error))
    return Health(works=True, why=f"asks {options.get('base_url', BASE_URL)} ({found.api}) through the office's proxy")


PROVIDER = Descriptor(
    name="openai",
    in_process=True,
    load=_load,
    endpoint="openai",
    needs_model=True,
    options=ABOUT
    | {
        "api": 'which of the two APIs is spoken: "chat" or "responses"; chat, which every compatible server has',
        "context_tokens": f"{ABOUT['context_tokens']}; {DEFAULTS.context_tokens}",
        "max_tokens": f"{ABOUT['max_tokens']}; the API's own limit",
    },
    read=lambda options: read(options, DEFAULTS),
    check=_check,
    summary="A model behind OpenAI's chat completions or responses API, or a server that speaks one of them.",
)
