from __future__ import annotations

import pytest

from manydesks.domain.errors import SettingsError
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings, value_from_text, variables
from manydesks.settings.model import Settings, sections


def test_a_missing_file_means_defaults_and_stays_missing(home: Home) -> None:
    assert load_settings(home, {}) == Settings()
    assert not home.settings_file.exists()


def test_defaults_then_file_then_environment(home: Home) -> None:
    home.settings_file.write_text("[retry]\nbase_seconds = 2\nmax_attempts = 3\n")
    loaded = load_settings(home, {"MANYDESKS_RETRY__BASE_SECONDS": "0.5", "MANYDESKS_LIMITS__HOPS": "4"})
    assert (loaded.retry.base_seconds, loaded.retry.max_attempts, loaded.retry.jitter) == (0.5, 3, 0.1)
    assert loaded.limits.hops == 4


def test_the_real_environment_is_the_default(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANYDESKS_LIMITS__HOPS", "4")
    assert load_settings(home).limits.hops == 4


def test_every_key_has_a_variable() -> None:
    assert variables()["MANYDESKS_RETRY__BASE_SECONDS"] == ("retry", "base_seconds")
    assert len(variables()) == sum(len(model.model_fields) for model in sections().values())


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("retry.max_attempts", "7", 7),
        ("retry.base_seconds", " 1e1 ", 10.0),
        ("retry.max_attempts", "seven", "seven"),
        ("pipeline.memory", "4g", "4g"),
        ("pipeline.memory", '"4g"', "4g"),
        ("pipeline.lake", "", ""),
        ("pipeline.lake", '""', ""),
        ("office.default_agent", "7", "7"),
        ("office.default_agent", "true", "true"),
        ("office.durability", "crash", "crash"),
        ("retry.max_attempts", "7\n[limits]\nhops = 1", "7\n[limits]\nhops = 1"),
        ("retry.max_attempts", "[" * 5000, "[" * 5000),
    ],
)
def test_text_is_read_as_toml_or_else_as_it_is(path: str, text: str, value: object) -> None:
    section, key = path.split(".")
    read = value_from_text(sections()[section].model_fields[key], text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"MANYDESKS_RETRY__BASE_SECOND": "1"}, "the nearest name is 'MANYDESKS_RETRY__BASE_SECONDS'"),
        ({"MANYDESKS_RETRY_BASE_SECONDS": "1"}, "the nearest name is 'MANYDESKS_RETRY__BASE_SECONDS'"),
        ({"MANYDESKS_retry__base_seconds": "1"}, "the nearest name is 'MANYDESKS_RETRY__BASE_SECONDS'"),
        ({"MANYDESKS_HOEM": "/x"}, "the nearest name is 'MANYDESKS_HOME'"),
        ({"MANYDESKS_FOO__BAR": "1"}, "unknown variable 'MANYDESKS_FOO__BAR'"),
        ({"MANYDESKS_QQQ": "1"}, "allowed are MANYDESKS_HOME and MANYDESKS_<SECTION>__<KEY>"),
        ({"MANYDESKS_SECRETS": "hush-hush"}, "unknown variable 'MANYDESKS_SECRETS'"),
        (
            {"MANYDESKS_RETRY__MAX_ATTEMPTS": "many"},
            'the variable MANYDESKS_RETRY__MAX_ATTEMPTS: retry.max_attempts is "many", but must be a whole number',
        ),
    ],
)
def test_a_wrong_variable_is_an_error_that_names_it(home: Home, environ: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(home, environ)
    assert told in str(caught.value)
    assert "hush" not in str(caught.value)


def test_variables_that_are_no_settings_are_left_alone(home: Home) -> None:
    environ = {"MANYDESKS_HOME": "/x", "MANYDESKS_TEST_DEPTH": "3", "MANYDESKS_SECRET_KEY": "x", "PATH": "/bin"}
    assert load_settings(home, environ) == Settings()


def test_a_wrong_file_names_file_line_key_value_and_what_is_allowed(home: Home) -> None:
    home.settings_file.write_text("# mine\n[retry]\njitter = 0.2\nmax_attempts = 0\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(home, {})
    assert str(caught.value) == (
        f"The settings are not valid: {home.settings_file}, line 4: "
        "retry.max_attempts is 0, but must be a whole number from 1 up to 100; nothing was changed."
    )


def test_the_first_of_several_problems_is_the_first_in_the_file_and_the_rest_are_counted(home: Home) -> None:
    raw = b"[retry]\nmax_attempt = 3\n[office]\ndurability = 'x'\n"
    home.settings_file.write_bytes(raw)
    with pytest.raises(SettingsError, match=r"line 2: unknown key .* \(and 2 more problems\)"):
        load_settings(home, {"MANYDESKS_FOO": "1"})
    assert home.settings_file.read_bytes() == raw


def test_a_wrong_value_in_the_file_is_told_although_a_variable_overrides_it(home: Home) -> None:
    home.settings_file.write_text("retry = 5\n")
    with pytest.raises(SettingsError, match=r"line 1: 'retry' must be a section"):
        load_settings(home, {"MANYDESKS_RETRY__JITTER": "0.5"})
