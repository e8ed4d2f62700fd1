from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Inbound
from manydesks.runner.cues import load_cues, played, read_cues, script_of
from manydesks.runner.providers.base import Answer, Failed, Turn
from manydesks.runner.providers.rehearsal import PROVIDER, Rehearsal
from manydesks.runner.tools import registry

SCRIPT = """\
# a comment
? sprint, blockers

!say none
!say at all
? sprint
!say green
?
!say what?
"""


@pytest.mark.parametrize(
    ("heard", "obeyed"),
    [
        ("Any BLOCKERS in this sprint?", "!say none\n!say at all"),
        ("the sprint", "!say green"),
        ("sprinters", "!say what?"),
        ("", "!say what?"),
    ],
)
def test_the_first_that_fits(heard: str, obeyed: str) -> None:
    assert played(read_cues(SCRIPT), heard) == obeyed


def test_what_no_cue_fits_is_the_message_itself() -> None:
    assert played(read_cues("? sprint\n!say green"), "!say hello") == "!say hello"
    # a cue without lines has nothing to say
    assert played(read_cues("?\n"), "hello") == "hello"
    assert played((), "hello") == "hello"


@pytest.mark.parametrize("text", ["!say too early", "? x\nsay", "? x\n  !say indented"])
def test_a_line_that_cannot_be_obeyed(text: str) -> None:
    with pytest.raises(BadInput, match=f"line {len(text.splitlines())} is neither"):
        read_cues(text)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", 3, ["x"]])
def test_the_option_is_a_path_in_the_workspace(path: object) -> None:
    with pytest.raises(BadInput, match="must be the path of a file"):
        script_of({"script": path})
    with pytest.raises(BadInput):
        PROVIDER.read({"script": path})


def test_one_of_script_and_recording() -> None:
    assert script_of({}) is None
    PROVIDER.read({"script": "a"})
    PROVIDER.read({"recording": "a"})
    with pytest.raises(BadInput, match="not both"):
        PROVIDER.read({"script": "a", "recording": "b"})


def test_a_file_that_cannot_be_played(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("hello")
    (tmp_path / "link.txt").symlink_to(tmp_path / "bad.txt")
    for name, why in (("none.txt", "cannot be"), ("bad.txt", "line 1"), ("link.txt", "symbolic link")):
        with pytest.raises(BadInput, match=why) as refused:
            load_cues(tmp_path, name)
        assert name in str(refused.value)


async def test_the_agent_plays_its_part(tmp_path: Path) -> None:
    script = tmp_path / "script.txt"
    provider = Rehearsal(cues=lambda: load_cues(tmp_path, "script.txt"))

    async def said(text: str) -> str:
        message = Inbound(id="m", run="r", fence=1, kind="chat", at=1, tries=1, content={"sender": "you", "text": text})
        tools = registry.Toolbox(registry.find(), (message,), lambda *_: None)  # type: ignore[arg-type]
        turn = Turn(agent="coder", name="Coder", messages=(message,), tools=tools)
        last = [step async for step in provider.turn(turn)][-1]
        if isinstance(last, Failed):
            return f"{last.failure}: {last.reason}"
        assert isinstance(last, Answer)
        return last.text

    assert (await said("sprint")).startswith("permanent: The script 'script.txt' cannot be")
    script.write_text(SCRIPT)
    assert await said("Blockers of the sprint?") == "none\nat all"
    # changed while the agent is there
    script.write_text("? sprint\n!say red\n")
    assert await said("sprint") == "red"
    assert "wrote: lunch" in await said("lunch")
