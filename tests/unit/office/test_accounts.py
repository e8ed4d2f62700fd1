"""The settings of channels, as the channels read them."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.channels.registry import Channels
from manydesks.domain.errors import BadInput, SettingsError
from manydesks.office.accounts import accounts
from manydesks.settings.model import Settings
from manydesks.testing.post import CHANNEL as POST

CHANNELS = Channels([POST, Channels().get("console"), Channels().get("api")])


def read(**channels: Any) -> dict[str, Any]:
    return dict(accounts(Settings.model_validate({"channels": channels}), CHANNELS))


def test_those_that_need_no_settings_are_there() -> None:
    assert sorted(read()) == ["api", "console"]
    assert read()["console"].rule == "resend"


def test_a_section_brings_a_channel() -> None:
    found = read(post={"folder": "/x", "cut_off": "drop", "max_age_hours": 2})["post"]
    assert (found.rule, found.section.folder, found.max_age_ms(Settings())) == ("drop", "/x", 7_200_000)


def test_ages() -> None:
    assert read()["console"].max_age_ms(Settings()) == 12 * 3_600_000
    assert read()["api"].max_age_ms(Settings()) == 168 * 3_600_000


def test_accounts_have_what_the_section_says_unless_they_say_otherwise() -> None:
    found = read(post={"folder": "/x", "cut_off": "drop", "instances": {"a": {}, "b": {"folder": "/y"}}})
    assert sorted(found) == ["api", "console", "post/a", "post/b"]
    assert [found[f"post/{name}"].section.folder for name in "ab"] == ["/x", "/y"]
    assert found["post/b"].rule == "drop"


@pytest.mark.parametrize(
    ("channels", "sentence"),
    [
        ({"posst": {}}, "unknown channel 'posst', the nearest name is 'post'"),
        ({"post": {}}, "[channels.post] needs folder: a text"),
        ({"post": {"folder": "/x", "cut_of": "ask"}}, "unknown key of [channels.post] 'cut_of', the nearest name is"),
        ({"console": {"cut_off": "now"}}, 'channels.console.cut_off is "now", but must be "", "ask", "resend"'),
        ({"console": {"enabled": "yes"}}, 'channels.console.enabled is "yes", but must be true or false'),
        ({"console": {"instances": {"a": {}}}}, "[channels.console.instances]: console has one account only"),
        ({"post": {"folder": "/x", "instances": {"A b": {}}}}, "[channels.post.instances] must be a table for each"),
        ({"post": {"folder": "/x", "instances": {"a": {"x": 1}}}}, "unknown key of [channels.post.instances.a] 'x'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(channels: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(**channels)
    assert sentence in str(refused.value)
    assert str(refused.value).endswith("nothing was changed.")


def test_unknown_names() -> None:
    with pytest.raises(BadInput, match="There is no channel 'pigeon'; there are api, console, post"):
        CHANNELS.get("pigeon")
