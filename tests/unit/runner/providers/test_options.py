from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from manydesks.runner.providers import anthropic, openai
from manydesks.runner.providers.base import Descriptor
from manydesks.runner.providers.registry import Providers

BOTH = (anthropic.PROVIDER, openai.PROVIDER)


@pytest.mark.parametrize("provider", BOTH, ids=lambda provider: provider.name)
def test_the_descriptor_says_what_it_needs(provider: Descriptor) -> None:
    assert Providers().get(provider.name) is provider
    assert provider.in_process
    assert provider.endpoint == provider.name
    assert {"base_url", "key", "context_tokens", "max_tokens", "idle_seconds"} <= set(provider.options)
    health = provider.check({})
    assert health.works
    assert "https://api." in health.why
    assert "http://127.0.0.1:8080/v1" in provider.check({"base_url": "http://127.0.0.1:8080/v1"}).why


@pytest.mark.parametrize("provider", BOTH, ids=lambda provider: provider.name)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"context_tokens": 10}, "'context_tokens' must be a whole number from 1000"),
        ({"context_tokens": True}, "'context_tokens'"),
        ({"max_tokens": "8000"}, "'max_tokens' must be a whole number from 1"),
        ({"max_rounds": -1}, "'max_rounds'"),
        ({"idle_seconds": 0}, "'idle_seconds' must be a number above 0"),
        ({"idle_seconds": float("nan")}, "'idle_seconds'"),
        ({"native": ["image", "video"]}, "'native' must be a list of"),
        ({"native": "image"}, "'native'"),
        ({"native": [[]]}, "'native'"),
        ({"extra": {"messages": []}}, "'extra' must be a table without"),
        ({"extra": 7}, "'extra'"),
        ({"base_url": ""}, "'base_url' must be a text"),
        ({"key": 7}, "'key' must be a text"),
        ({"cache": "yes"}, "'cache' must be true or false"),
    ],
    ids=str,
)
def test_a_wrong_option_is_said(provider: Descriptor, options: dict[str, Any], words: str) -> None:
    health = provider.check(options)
    assert not health.works
    assert words in health.why


def test_the_api_is_openai_s_alone() -> None:
    assert openai.PROVIDER.check({"api": "responses"}).why.count("responses") == 1
    assert not openai.PROVIDER.check({"api": "completions"}).works
    assert "api" not in anthropic.PROVIDER.options


def test_httpx_is_imported_on_load_only() -> None:
    script = (
        "import sys; from manydesks.runner.providers import anthropic, openai; anthropic.PROVIDER.check({}); "
        "openai.PROVIDER.check({}); print('httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
