from __future__ import annotations

from typing import Any

import pytest

from manydesks.settings.model import Settings
from manydesks.settings.problems import Problem, check, nearest, refusal


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"retyr": {}}, "unknown section 'retyr', the nearest name is 'retry'"),
        ({"jitter": 1}, "unknown section 'jitter', the nearest name is 'retry.jitter'"),
        ({"retry": {"base_second": 1}}, "unknown key 'retry.base_second', the nearest name is 'retry.base_seconds'"),
        ({"retry": {"Jitter": 1}}, "unknown key 'retry.Jitter', the nearest name is 'retry.jitter'"),
        (
            {"xyzzyx": 1},
            "unknown section 'xyzzyx', allowed are office, retry, limits, dispatch, runner, sandbox, proxy, budget, "
            "delivery, api, hooks, retention, pipeline, upstreams, prices, providers, channels",
        ),
        ({"retry": 5}, "'retry' must be a section, written [retry]"),
        ({"retry": [{}]}, "'retry' must be a section, written [retry]"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts is 0, but must be a whole number from 1 up to 100"),
        ({"retry": {"max_attempts": True}}, "retry.max_attempts is true, but must be a whole number from 1 up to 100"),
        ({"retry": {"max_attempts": "5"}}, 'retry.max_attempts is "5", but must be a whole number from 1 up to 100'),
        ({"retry": {"max_attempts": []}}, "retry.max_attempts is a list, but must be a whole number from 1 up to 100"),
        ({"retry": {"max_attempts": {}}}, "retry.max_attempts is a table, but must be a whole number from 1 up to 100"),
        (
            {"upstreams": {"LM": {"kind": "openai", "base_url": "https://x"}}},
            "'LM' is not a name for [upstreams.<name>]: 1 to 32 lowercase letters, digits, and _ - inside",
        ),
        (
            {"upstreams": {"lm": {"kind": "opnai", "base_url": "https://x"}}},
            'upstreams.lm.kind is "opnai", but must be "anthropic" or "openai"',
        ),
        ({"upstreams": {"lm": {"kind": "openai"}}}, "[upstreams.lm] needs base_url: a text"),
        ({"upstreams": 3}, "'upstreams' must be a section, written [upstreams.<name>]"),
        ({"providers": {"claude": 3}}, "'providers.claude' must be a section, written [providers.<name>]"),
        (
            {"upstreams": {"lm": {"kind": "openai", "base_url": "https://x", "keyy": "sk-1"}}},
            "unknown key of [upstreams.lm] 'keyy', the nearest name is 'key'",
        ),
        ({"office": {"durability": "none"}}, 'office.durability is "none", but must be "power" or "crash"'),
        (
            {"budget": {"time_zone": "Atlantis"}},
            'budget.time_zone is "Atlantis", but must be the name of a time zone such as "Europe/Berlin"',
        ),
        (
            {"budget": {"per_day_usd": -1.0}},
            "budget.per_day_usd is -1.0, but must be 0, or a number from 0.000001 up to 1000000000",
        ),
        # it would be counted as 0, which is no cap
        (
            {"budget": {"per_day_usd": 4e-10}},
            "budget.per_day_usd is 4e-10, but must be 0, or a number from 0.000001 up to 1000000000",
        ),
    ],
)
def test_a_problem_in_words(data: dict[str, Any], words: str) -> None:
    found = check(data)
    assert isinstance(found, list)
    assert [str(problem) for problem in found] == [words]


def test_valid_data_gives_settings() -> None:
    assert check({}) == Settings()


def test_long_values_are_cut() -> None:
    found = check({"office": {"durability": "x" * 10_000}})
    assert isinstance(found, list)
    assert len(str(found[0])) < 200


def test_the_value_of_an_unknown_key_is_not_repeated() -> None:
    for data in ({"api_key": "sk-12345678"}, {"retry": {"api_key": "sk-12345678"}}):
        found = check(data)
        assert isinstance(found, list)
        assert "sk-1" not in repr(found)


def test_several_problems_are_one_sentence() -> None:
    one, two = Problem(key=("a",), words="first", where="here"), Problem(key=("b",), words="second")
    assert str(refusal([one])) == "The settings are not valid: here: first; nothing was changed."
    assert "here: first (and 1 more problem);" in str(refusal([one, two]))
    assert "here: first (and 2 more problems);" in str(refusal([one, two, two]))


def test_nearest() -> None:
    assert nearest("RETYR", ["office", "Retry"]) == "Retry"
    assert nearest("xyzzy", ["office", "retry"]) is None


def test_a_list_is_one_value_with_one_line() -> None:
    (problem,) = check({"hooks": {"disabled": ["signature", "Not A Name"]}})
    assert problem.key == ("hooks", "disabled")
    assert str(problem).startswith('hooks.disabled is "Not A Name", but must be a list of plugins')
