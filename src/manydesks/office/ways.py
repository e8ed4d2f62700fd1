"""Models within reach of an office whose agent rehearses only: keys, and a Claude Code that is logged in.

Nothing is called, and nothing is spent: files and variables are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manydesks.desk.furnish import STRICT
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.office.clerk import FIRST_AGENT
from manydesks.runner.program import find_program
from manydesks.settings.model import Settings

#: provider → the secret that holds its key by default, and the variable by which people know that key
KEYS = {
    "anthropic": ("anthropic_api_key", "ANTHROPIC_API_KEY"),
    "openai": ("openai_api_key", "OPENAI_API_KEY"),
}


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to drive an agent by a model."""

    #: what was found, as the beginning of a sentence
    found: str
    provider: str
    #: its key is, or has to be, this secret
    secret: str
    #: the variable that holds the key, if the office does not have it yet
    variable: str | None
    #: no key was found; only that there is a program which its owner uses
    wants_key: bool = False

    @property
    def needs_model(self) -> bool:
        """The program has a default, the APIs have none."""
        return self.provider != "claude"

    def how(self) -> str:
        """The commands that switch to it."""
        model = " --model MODEL" if self.needs_model else ""
        store = f"`manydesks secret set {self.secret}` and " if self.variable or self.wants_key else ""
        return f"{store}`manydesks agent edit {FIRST_AGENT} --provider {self.provider}{model}`"


async def ways(settings: Settings, secrets: Mapping[str, str], environ: Mapping[str, str]) -> list[Way]:
    """The best first: what the office has already, what the environment has, what wants a key."""
    held = [
        _with_key(provider, None, await _driver(provider, settings)) for provider in KEYS if _held(provider, secrets)
    ]
    near = [
        _with_key(provider, variable, await _driver(provider, settings))
        for provider, (_, variable) in KEYS.items()
        if not _held(provider, secrets) and environ.get(variable, "").strip()
    ]
    if not held and not near and (login := claude_login(environ)) is not None and await _claude_works(settings):
        secret = KEYS["anthropic"][0]
        near.append(
            Way(
                found=f"Claude Code is logged in ({login})",
                provider="claude",
                secret=secret,
                variable=None,
                wants_key=True,
            )
        )
    return held + near


def claude_login(environ: Mapping[str, str]) -> Path | None:
    """Where the program keeps its login, if it has one in a file and is on the PATH; it is not read."""
    own = environ.get("HOME") or str(Path.home())
    file = Path(environ.get("CLAUDE_CONFIG_DIR") or Path(own) / ".claude") / ".credentials.json"
    return file if find_program("claude") is not None and file.is_file() else None


def _held(provider: str, secrets: Mapping[str, str]) -> bool:
    return KEYS[provider][0] in secrets


def _with_key(provider: str, variable: str | None, driver: str) -> Way:
    where = f"in the variable {variable}" if variable else f"among the office's secrets ({KEYS[provider][0]})"
    name = {"anthropic": "Anthropic", "openai": "OpenAI"}[provider]
    return Way(found=f"A key for {name} is {where}", provider=driver, secret=KEYS[provider][0], variable=variable)


async def _driver(provider: str, settings: Settings) -> str:
    """Claude Code where it can run, since it can work with files; else the plain API."""
    return "claude" if provider == "anthropic" and await _claude_works(settings) else provider


async def _claude_works(settings: Settings) -> bool:
    """Where it cannot start it is not offered: no program, or nothing that would hold it."""
    if find_program("claude") is None:
        return False
    if settings.sandbox.kind == "none":
        return True
    return (await Sandboxes().get(STRICT).load().check()).works
