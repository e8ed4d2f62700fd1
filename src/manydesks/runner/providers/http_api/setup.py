"""From a desk's settings to a provider that works there, or one that says what is missing."""

from __future__ import annotations

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput
from manydesks.runner.providers.base import Provider, Station
from manydesks.runner.providers.http_api.briefing import Briefing
from manydesks.runner.providers.http_api.chat import Chat
from manydesks.runner.providers.http_api.context import Context
from manydesks.runner.providers.http_api.files import Files
from manydesks.runner.providers.http_api.history import History
from manydesks.runner.providers.http_api.line import Line
from manydesks.runner.providers.http_api.memory import Memory
from manydesks.runner.providers.http_api.messages import Messages
from manydesks.runner.providers.http_api.options import Api, Options, read
from manydesks.runner.providers.http_api.provider import ApiProvider, Unready
from manydesks.runner.providers.http_api.responses import Responses
from manydesks.runner.providers.http_api.wire import Wire


def make(station: Station, *, provider: str, defaults: Options, clock: Clock | None = None) -> Provider:
    """Never raises for what a person has set: the first turn fails for good, and says what to set."""
    clock = clock or SystemClock()
    endpoint = station.endpoint
    if not station.model:
        return Unready(f"the agent '{station.agent}' has no model: set `model`, the provider '{provider}' needs one")
    if endpoint is None:
        return Unready(
            f"the provider '{provider}' has no way to a model here: set its `base_url`, "
            "and its `key` to the name of a secret"
        )
    if endpoint.kind != provider:
        return Unready(f"the provider '{provider}' cannot talk to an endpoint of the kind '{endpoint.kind}'")
    try:
        options = read(station.options, defaults)
    except BadInput as error:
        return Unready(str(error))
    line = Line(endpoint, idle_seconds=options.idle_seconds, clock=clock)
    wire, files = _wire(options.api), Files(station.state)
    context = Context(line, wire, files, model=station.model, options=options)
    memory = Memory(History(station.state), files, context_tokens=options.context_tokens)
    briefing = Briefing(station, files, takes=options.takes(wire), clock=clock)
    return ApiProvider(context, memory, briefing, options=options, clock=clock)


def _wire(api: Api) -> Wire:
    match api:
        case "messages":
            return Messages()
        case "chat":
            return Chat()
        case "responses":
            return Responses()
