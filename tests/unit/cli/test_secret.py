from __future__ import annotations

import json
import stat

from manydesks.settings.secrets import load_secrets


def test_a_value_comes_from_standard_input_and_never_shows(run, home):
    result = run("secret", "set", "anthropic_api_key", input="sk-very-secret\n")
    assert result.exit_code == 0
    assert "sk-very-secret" not in result.stdout + result.stderr
    assert load_secrets(home, {})["anthropic_api_key"] == "sk-very-secret"
    assert stat.S_IMODE(home.secrets_file.stat().st_mode) == 0o600
    assert run("secret", "list").stdout == "anthropic_api_key\n"
    assert json.loads(run("secret", "list", "--json").stdout) == ["anthropic_api_key"]


def test_other_lines_stay_when_one_goes(run, home):
    home.prepare()
    home.secrets_file.write_text('# the lab\nlab = "sk-of-the-lab"\n\n# the other\nother = "sk-other"\n')
    home.secrets_file.chmod(0o600)
    assert run("secret", "remove", "lab", "--yes").exit_code == 0
    assert "lab" not in load_secrets(home, {})
    assert load_secrets(home, {})["other"] == "sk-other"
    assert "# the other" in home.secrets_file.read_text()


def test_what_is_not_there_cannot_go(run, home):
    home.prepare()
    result = run("secret", "remove", "nothing", "--yes")
    assert result.exit_code == 1
    assert "has no secret 'nothing'; there are none" in result.stderr
    assert run("secret", "remove", "nothing").exit_code == 2  # nobody to ask


def test_what_is_no_secret_is_refused(run, home):
    home.prepare()
    for name, value, words in (
        ("Bad Name", "x" * 10, "a secret's name is a-z"),
        ("good", "", "is empty"),
        ("good", "x" * 70_000, "more than 64 KiB"),
        ("good", b"\xff\xfe", "not UTF-8"),
    ):
        result = run("secret", "set", name, input=value)
        assert result.exit_code == 2, words
        assert words in result.stderr
    assert not home.secrets_file.exists()


def test_none_yet(run):
    result = run("secret", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "manydesks secret set NAME" in result.stderr
