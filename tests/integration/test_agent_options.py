"""An option's bad value is refused when the agent is added, in the words that its run would have failed with."""

from __future__ import annotations

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

BAD = {
    "rehearsal": (
        "recording=/etc/passwd",
        "the option 'recording' must be the path of a file in the agent's workspace",
    ),
    "claude": ("retries=99", "option 'retries' of claude must be a whole number from 0 to 10"),
    "anthropic": ("max_tokens=none", "the option 'max_tokens' must be a whole number from 1 to 10000000, not 'none'"),
    "openai": ("mounts=~/docs", "The option 'mounts' is a list of paths"),
}


@pytest.mark.parametrize("provider", BAD)
def test_it_is_refused_and_nothing_is_made(shell: Shell, provider: str) -> None:
    option, why = BAD[provider]
    assert why in shell.refusal("agent", "add", "amy", "--provider", provider, "--option", option)
    assert not (shell.home / "workspaces" / "amy").exists()


def test_by_a_running_office_too(shell: Shell, office: OfficeProcess) -> None:
    option, why = BAD["rehearsal"]
    assert why in shell.refusal("agent", "add", "amy", "--option", option)
    assert [agent["id"] for agent in shell.value("agent", "list")] == ["assistant"]


def test_options_that_the_settings_give_are_looked_at_before_the_office_opens(shell: Shell) -> None:
    """Found in a run, they would cost messages."""
    shell.said("agent", "add", "amy")
    (shell.home / "settings.toml").write_text('[providers.rehearsal]\nrecording = "/etc/passwd"\n')
    why = "the option 'recording' must be the path of a file in the agent's workspace"
    assert why in shell.refusal("up")
    assert why in shell.refusal("agent", "add", "ben")
