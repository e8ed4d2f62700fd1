"""The page about providers has every option of `anthropic` and `openai`, with its default, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

from manydesks.runner.providers import anthropic, openai
from manydesks.runner.providers.http_api import options

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "providers.md"


def rows() -> dict[str, tuple[str, str]]:
    text = PAGE.read_text(encoding="utf-8")
    part = text.split("### Options of `anthropic` and `openai`\n")[1].split("\n### ")[0]
    return {
        name: (default, meaning) for name, default, meaning in re.findall(r"^\| `(\w+)` \|(.*?)\|(.*)\|$", part, re.M)
    }


def test_every_option_and_no_other() -> None:
    assert set(rows()) == set(anthropic.PROVIDER.options) | set(openai.PROVIDER.options)


def test_options_of_one_provider_say_so() -> None:
    for name, (_, meaning) in rows().items():
        for provider, other in ((anthropic.PROVIDER, openai.PROVIDER), (openai.PROVIDER, anthropic.PROVIDER)):
            if name not in other.options:
                assert f"`{provider.name}` only" in meaning, name


def test_defaults() -> None:
    shown = {name: default for name, (default, _) in rows().items()}
    ours, theirs = options.read({}, anthropic.DEFAULTS), options.read({}, openai.DEFAULTS)
    for name, values in {
        "base_url": (anthropic.BASE_URL, openai.BASE_URL),
        "api": (json.dumps(theirs.api),),
        "context_tokens": (ours.context_tokens, theirs.context_tokens),
        "max_tokens": (ours.max_tokens,),
        "max_rounds": (ours.max_rounds,),
        "idle_seconds": (f"{ours.idle_seconds:g}",),
        "cache": (json.dumps(ours.cache),),
        "native": (json.dumps(sorted(ours.native)), json.dumps(sorted(theirs.native))),
    }.items():
        for value in values:
            assert str(value) in shown[name], name
