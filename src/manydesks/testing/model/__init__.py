"""A model that says what a script tells it to, over loopback HTTP, to the real clients of real models.

    with ScriptedModel([Turn(text="Hello."), Turn(fault=Refuse(status=429))]) as model:
        ...  # point a client at model.base_url
        model.wait_requests(2)

One script serves three dialects, streamed and not: Anthropic messages, OpenAI responses, OpenAI chat completions.
"""

from manydesks.testing.model.asked import Asked
from manydesks.testing.model.fault import Cut, Fail, Fault, Garble, Hang, Refuse
from manydesks.testing.model.reading import load_script, read_script
from manydesks.testing.model.record import Ending, Request
from manydesks.testing.model.script import Play, Script, echo
from manydesks.testing.model.server import ModelServer
from manydesks.testing.model.threaded import ScriptedModel
from manydesks.testing.model.turn import Pace, ToolCall, Turn, Usage, When

__all__ = [
    "Asked",
    "Cut",
    "Ending",
    "Fail",
    "Fault",
    "Garble",
    "Hang",
    "ModelServer",
    "Pace",
    "Play",
    "Refuse",
    "Request",
    "Script",
    "ScriptedModel",
    "ToolCall",
    "Turn",
    "Usage",
    "When",
    "echo",
    "load_script",
    "read_script",
]
