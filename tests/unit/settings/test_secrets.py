from __future__ import annotations

import copy
import json
import pickle
import stat
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.errors import BadInput, SettingsError
from manydesks.settings.home import Home
from manydesks.settings.secrets import Secrets, load_secrets, mask, mask_texts, set_secret


def write(home: Home, text: str, mode: int = 0o600) -> None:
    home.secrets_file.write_text(text)
    home.secrets_file.chmod(mode)


def test_a_missing_file_is_no_secrets(home: Home) -> None:
    assert dict(load_secrets(home, {})) == {}
    assert not home.secrets_file.exists()


def test_a_secret_is_stored_for_the_owner_only_and_the_rest_of_the_file_stays(home: Home) -> None:
    write(home, '# from the console\nold_key = "old-value" # keep\n')
    set_secret(home, "api_key", 'a"b\\c\nd\u2603')
    set_secret(home, "old_key", "new-value")
    assert dict(load_secrets(home, {})) == {"old_key": "new-value", "api_key": 'a"b\\c\nd\u2603'}
    assert home.secrets_file.read_text().startswith('# from the console\nold_key = "new-value" # keep\n')
    assert stat.S_IMODE(home.secrets_file.stat().st_mode) == 0o600


def test_a_new_file_is_0600(home: Home) -> None:
    set_secret(home, "api_key", "some-value")
    assert stat.S_IMODE(home.secrets_file.stat().st_mode) == 0o600


def test_variables_override(home: Home) -> None:
    write(home, 'api_key = "from-file"\nother = "stays-here"\n')
    environ = {"MANYDESKS_SECRET_API_KEY": "from-env", "MANYDESKS_SECRET_NEW": "brand-new", "API_KEY": "no"}
    assert dict(load_secrets(home, environ)) == {"api_key": "from-env", "other": "stays-here", "new": "brand-new"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_can_open_is_refused_and_not_tightened(home: Home, mode: int) -> None:
    write(home, 'api_key = "hush-hush"\n', mode)
    for act in (lambda: load_secrets(home, {}), lambda: set_secret(home, "other", "value-value")):
        with pytest.raises(SettingsError) as caught:
            act()
        assert f"run `chmod 600 {home.secrets_file}`" in str(caught.value)
    assert stat.S_IMODE(home.secrets_file.stat().st_mode) == mode
    assert home.secrets_file.read_text() == 'api_key = "hush-hush"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('ok = "fine-fine"\napi_key = "hush-hush\n', "line 2: this is not valid TOML"),
        ("\napi_key = hush-hush\n", "line 2: this is not valid TOML"),
        ('"hush-hush" = "api_key"\n', "line 1: a secret's name is"),
        ("\napi_key = 12345678\n", "line 2: the secret 'api_key' must be a text"),
        ('[api_key]\nvalue = "hush-hush"\n', "line 1: the secret 'api_key' must be a text"),
        ('api_key = ""\n', "line 1: the secret 'api_key' is empty"),
        ('api_key = "hush-hush\\n"\n', "line 1: the secret 'api_key' must not begin or end with white space"),
    ],
)
def test_a_broken_file_is_reported_without_a_value_and_left_as_it_is(home: Home, text: str, told: str) -> None:
    write(home, text)
    for act in (lambda: load_secrets(home, {}), lambda: set_secret(home, "other", "value-value")):
        with pytest.raises(SettingsError) as caught:
            act()
        assert told in str(caught.value)
        assert "hush" not in str(caught.value)
        assert "12345678" not in str(caught.value)
        assert caught.value.__context__ is None
    assert home.secrets_file.read_text() == text


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("API_KEY", "hush-hush", "a secret's name is"),
        ("", "hush-hush", "a secret's name is"),
        ("a.b", "hush-hush", "a secret's name is"),
        ("api_key", "", "is empty"),
        ("api_key", " \n", "is empty"),
        ("api_key", "hush-hush\n", "white space"),
        ("api_key", "hush\udcff", "UTF-8"),
    ],
)
def test_a_wrong_secret_is_refused_without_its_value(home: Home, name: str, value: str, told: str) -> None:
    with pytest.raises(BadInput, match=told) as caught:
        set_secret(home, name, value)
    assert "hush" not in str(caught.value)
    assert not home.secrets_file.exists()


@pytest.mark.parametrize(
    "variable", ["MANYDESKS_SECRET_", "MANYDESKS_SECRET_key", "MANYDESKS_SECRET_1", "MANYDESKS_SECRET_A-B"]
)
def test_a_wrong_variable_is_refused(home: Home, variable: str) -> None:
    with pytest.raises(SettingsError, match=f"the variable {variable} must be") as caught:
        load_secrets(home, {variable: "hush-hush"})
    assert "hush" not in str(caught.value)


def test_an_empty_variable_is_refused(home: Home) -> None:
    with pytest.raises(SettingsError, match="the variable MANYDESKS_SECRET_KEY is empty"):
        load_secrets(home, {"MANYDESKS_SECRET_KEY": ""})


def test_no_representation_shows_a_value() -> None:
    secrets = Secrets({"api_key": "hush-hush"})
    assert repr(secrets) == "Secrets(api_key=***)"
    for shown in (str(secrets), f"{secrets}", repr(secrets.values()), repr(secrets.items()), repr([secrets])):
        assert "hush" not in shown
    with pytest.raises(TypeError):
        vars(secrets)
    for act in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            act(secrets)
    assert secrets["api_key"] == "hush-hush"


def test_mask_replaces_every_occurrence_of_long_secrets() -> None:
    secrets = Secrets({"a": "hush-hush", "b": "hush-hush-longer", "c": "short", "d": "123456"})
    assert mask("hush-hush-longer hush-hush 123456 short", secrets) == "*** *** *** short"
    assert mask("nothing here", secrets) == "nothing here"


def test_mask_hides_overlapping_secrets_whole() -> None:
    assert mask("<abcdefghi>", Secrets({"a": "abcdef", "b": "defghi"})) == "<***>"
    assert mask("<abababab>", Secrets({"a": "ababab"})) == "<***>"


def test_mask_finds_the_json_and_url_forms() -> None:
    value = 'line "one"\nline/two é'
    secrets = Secrets({"key": value})
    for form in (value, json.dumps(value), json.dumps(value, ensure_ascii=False), quote(value, "")):
        assert mask(form, secrets).strip('"') == "***"


@given(
    values=st.lists(st.text(alphabet="abc", min_size=6, max_size=9), max_size=4),
    text=st.text(alphabet="abc", max_size=60),
)
def test_no_secret_is_left_in_a_masked_text(values: list[str], text: str) -> None:
    masked = mask(text, Secrets({f"k{n}": value for n, value in enumerate(values)}))
    assert not any(value in masked for value in values)
    if not any(value in text for value in values):
        assert masked == text


def test_texts_are_masked_wherever_they_are_and_numbers_stay() -> None:
    value = {"1234567": ["a 1234567", 1234567, {"b": 12345678.5, "c": '"quote\\"d"'}], "d": None, "e": True}
    secrets = {"pin": "1234567", "word": 'quote"d'}
    assert mask_texts(value, secrets) == {
        "***": ["a ***", 1234567, {"b": 12345678.5, "c": '"***"'}],
        "d": None,
        "e": True,
    }
