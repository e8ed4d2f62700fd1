"""The real `claude` against the scripted model: one call after the other, and one process that stays warm."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from manydesks.testing.model import (
    Asked,
    Cut,
    Fail,
    Garble,
    Hang,
    Pace,
    Refuse,
    Script,
    ScriptedModel,
    ToolCall,
    Turn,
    Usage,
)


def bundled() -> Path | None:
    """The program inside `claude-agent-sdk`; the package itself is not imported."""
    spec = find_spec("claude_agent_sdk")
    found = Path(spec.origin).parent / "_bundled" / "claude" if spec is not None and spec.origin else None
    return found if found is not None and found.exists() else None


CLAUDE = bundled()
SECONDS = 60.0

pytestmark = pytest.mark.skipif(CLAUDE is None, reason="claude is not installed: pip install 'manydesks[dev]'")


class Place:
    """A folder in which nobody has used claude before, and a model that it talks to."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self.work = folder / "work"
        self.work.mkdir()
        self.environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
            "ANTHROPIC_BASE_URL": model.base_url,
            "ANTHROPIC_API_KEY": "sk-placeholder",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def ask(self, text: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        """One call: the exit code, and what it prints."""
        command = [str(CLAUDE), "-p", "--output-format", "json", "--model", "scripted", *arguments]
        done = subprocess.run(
            [*command, "--", text],
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)


class Warm:
    """One process for many messages: JSON lines in, JSON lines out."""

    def __init__(self, place: Place, errors: Path, *arguments: str) -> None:
        command = [str(CLAUDE), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        with errors.open("wb") as file:
            self.process = subprocess.Popen(
                [*command, "--replay-user-messages", "--model", "scripted", *arguments],
                cwd=place.work,
                env=place.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def write(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def say(self, text: str, id: str | None = None) -> None:
        line = {"type": "user", "message": {"role": "user", "content": text}}
        self.write(line if id is None else {**line, "uuid": id})

    def result(self) -> list[dict[str, Any]]:
        """All lines up to the next result, which is the last."""
        lines: list[dict[str, Any]] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.append(json.loads(line))
            if lines[-1]["type"] == "result":
                return lines
        raise AssertionError(f"claude ended before its result: {lines}")

    def end(self) -> int:
        """Its input ends: the exit code."""
        self.process.communicate(timeout=SECONDS)
        return self.process.returncode


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def place(tmp_path: Path, model: ScriptedModel) -> Place:
    return Place(tmp_path, model)


@pytest.fixture
def warm(place: Place, tmp_path: Path) -> Iterator[Warm]:
    warm = Warm(place, tmp_path / "errors", "--allowedTools", "Bash")
    yield warm
    warm.process.kill()
    warm.process.communicate()


def bash(command: str) -> ToolCall:
    return ToolCall(name="Bash", arguments={"command": command, "description": "Does it."})


def test_text_and_usage(place: Place, model: ScriptedModel) -> None:
    usage = Usage(input=11, output=3, cache_read=5, cache_write=2)
    model.play(
        Turn(text="Hello there. " * 20, thinking="A greeting.", usage=usage, pace=Pace(bytes=400, seconds=0.001))
    )
    code, result = place.ask("say hello")
    assert (code, result["is_error"], result["result"]) == (0, False, "Hello there. " * 20)
    counted = {name: result["usage"][name] for name in result["usage"] if name.endswith("_tokens")}
    assert counted == {
        "input_tokens": 11,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 5,
        "output_tokens": 3,
    }
    [request] = model.requests
    assert request.key == "sk-placeholder"
    assert request.asked is not None
    assert (request.asked.user, request.asked.model, request.asked.stream) == ("say hello", "scripted", True)
    assert request.asked.conversation == result["session_id"]
    assert "Bash" in request.asked.tools
    assert model.others == ()  # nothing else was asked of anybody


def test_a_tool_is_called_and_its_result_comes_back(place: Place, model: ScriptedModel) -> None:
    model.play(Turn(text="I will look.", calls=(bash("echo $((6 * 7)) | tee made"),)))
    code, result = place.ask("work", "--allowedTools", "Bash")
    assert (code, result["result"], result["num_turns"]) == (0, "42", 2)  # the echo of the tool's result
    assert (place.work / "made").read_text() == "42\n"
    last = model.requests[-1].asked
    assert last is not None
    assert (last.user, last.tool_results) == ("work", ("42",))


@pytest.mark.parametrize(
    "fault",
    [
        Refuse(status=429, headers={"retry-after": "0"}),
        Refuse(status=529),
        Refuse(status=502, body="<h1>Bad gateway</h1>"),
        Cut(),
        Cut(reset=True),
        Cut(after_event=4),
        Garble(event=3),
        Fail(after_event=3),
    ],
    ids=str,
)
def test_after_a_fault_claude_tries_again(place: Place, model: ScriptedModel, fault: Any) -> None:
    model.play(Turn(text="Half of", fault=fault), Turn(text="All of it."))
    code, result = place.ask("hi")
    assert (code, result["is_error"], result["result"]) == (0, False, "All of it.")
    assert len(model.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_a_fault_that_stays_is_an_error(place: Place, model: ScriptedModel, status: int) -> None:
    model.play(Turn(fault=Refuse(status=status), times=None))
    code, result = place.ask("hi")
    assert (code, result["is_error"], result["api_error_status"]) == (1, True, status)
    assert result["subtype"] == "success"  # which is why nobody may look at it


def test_a_connection_that_is_always_cut_is_an_error(place: Place, model: ScriptedModel) -> None:
    model.play(Turn(text="Half of", fault=Cut(after_event=4), times=None))
    code, result = place.ask("hi")
    assert (code, result["is_error"], result["api_error_status"]) == (1, True, None)
    # After streams that broke, claude asks once more for the answer in one piece.
    assert [request.asked.stream for request in model.requests if request.asked] == [True, True, False]


def test_a_session_goes_on_in_another_process(place: Place, model: ScriptedModel) -> None:
    def counts(asked: Asked) -> Turn:
        return Turn(text=" ".join(asked.said))

    model.play(counts)
    _, first = place.ask("one")
    _, second = place.ask("two", "--resume", first["session_id"])
    assert second["result"] == "one two"
    assert second["session_id"] == first["session_id"]


def test_a_warm_process_takes_message_after_message(warm: Warm, model: ScriptedModel) -> None:
    model.play(
        Turn(text="First."),
        Turn(calls=(bash("echo a"), bash("echo b"))),
        Turn(text="Both done."),
        Turn(fault=Refuse(status=429, headers={"retry-after": "0"})),
        Turn(text="At last."),
        Turn(fault=Refuse(status=529), times=2),
        Turn(text="Still here."),
    )
    id = str(uuid.uuid4())
    warm.say("one", id)
    lines = warm.result()
    assert lines[-1]["result"] == "First."
    assert [line["uuid"] for line in lines if line.get("isReplay")] == [id]

    warm.say("two")
    assert warm.result()[-1]["result"] == "Both done."
    asked = model.requests[2].asked
    assert asked is not None
    assert sorted(asked.tool_results) == ["a", "b"]  # whichever was done first

    warm.say("three")
    lines = warm.result()
    assert [line["error_status"] for line in lines if line.get("subtype") == "api_retry"] == [429]
    assert lines[-1]["result"] == "At last."

    warm.say("four")
    failed = warm.result()[-1]
    assert (failed["is_error"], failed["api_error_status"]) == (True, 529)

    warm.say("five")
    assert warm.result()[-1]["result"] == "Still here."
    assert len({request.asked.conversation for request in model.requests if request.asked}) == 1
    assert warm.end() == 0


def test_an_answer_that_hangs_can_be_interrupted(warm: Warm, model: ScriptedModel) -> None:
    model.play(Turn(text="Never said.", fault=Hang(after_event=3)), Turn(text="Yes?"))
    warm.say("one")
    model.wait_hanging(1)
    warm.write({"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}})
    assert warm.result()[-1]["subtype"] == "error_during_execution"
    assert [ending.how for ending in model.wait_endings(1)] == ["left"]
    warm.say("two")
    assert warm.result()[-1]["result"] == "Yes?"
    asked = model.requests[-1].asked
    assert asked is not None
    assert asked.user == "two"


def test_a_hang_that_is_released(warm: Warm, model: ScriptedModel) -> None:
    model.play(Turn(text="Here it is.", fault=Hang()))
    warm.say("one")
    model.wait_hanging(1)
    model.release()
    assert warm.result()[-1]["result"] == "Here it is."


def test_a_killed_claude_is_noticed(warm: Warm, model: ScriptedModel) -> None:
    model.play(Turn(text="Never said.", fault=Hang()))
    warm.say("one")
    model.wait_hanging(1)
    warm.process.kill()
    assert [ending.how for ending in model.wait_endings(1)] == ["left"]


def test_claude_over_a_unix_socket(tmp_path: Path, home: Path) -> None:
    home.mkdir()
    with ScriptedModel(Script(default=Turn(text="Through the socket.")), socket=home / "m.sock") as model:
        place = Place(tmp_path, model)
        place.environ["ANTHROPIC_UNIX_SOCKET"] = str(model.socket)
        code, result = place.ask("hi")
    assert (code, result["result"]) == (0, "Through the socket.")
