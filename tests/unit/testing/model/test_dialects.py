"""One script in three dialects, streamed and not: clients hear the same, each in its own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from manydesks.testing.clock import ManualClock
from manydesks.testing.model import ScriptedModel, ToolCall, Turn, Usage

if TYPE_CHECKING:
    from conftest import Client

TEXT = "Grüße, 世界 🌍. " * 20
CALLS = (ToolCall(name="look", arguments={"where": "über " * 40}), ToolCall(name="stop"))

STOPS = {
    "messages": {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"},
    "responses": {"end": "completed", "calls": "completed", "length": "max_output_tokens", "refusal": "content_filter"},
    "chat": {"end": "stop", "calls": "tool_calls", "length": "length", "refusal": "content_filter"},
}


@pytest.mark.parametrize("piece", [1, 64, 100_000])
def test_everything_that_a_turn_says_arrives(client: Client, piece: int) -> None:
    turn = Turn(text=TEXT, thinking="Hm. " * 30, calls=CALLS, piece=piece)
    with ScriptedModel([turn]) as model:
        heard = client.ask(model)
    assert heard.text == turn.text
    assert heard.thinking == turn.thinking
    assert [(name, arguments) for _, name, arguments in heard.calls] == [(c.name, c.arguments) for c in CALLS]
    assert len({id for id, _, _ in heard.calls}) == 2
    assert heard.stop == STOPS[client.dialect]["calls"]


@pytest.mark.parametrize("stop", ["end", "length", "refusal"])
def test_why_it_ends(client: Client, stop: Any) -> None:
    with ScriptedModel([Turn(text="so far", stop=stop)]) as model:
        heard = client.ask(model)
    assert (heard.text, heard.stop) == ("so far", STOPS[client.dialect][stop])


def test_usage_in_the_shape_of_the_dialect(client: Client) -> None:
    usage = Usage(input=100, output=20, cache_read=30, cache_write=7, reasoning=5)
    with ScriptedModel([Turn(text="x", usage=usage)]) as model:
        heard = client.ask(model)
    if client.dialect == "messages":
        assert {key: heard.usage[key] for key in heard.usage if key.endswith("_tokens")} == {
            "input_tokens": 100,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 7,
            "output_tokens": 20,
        }
        assert heard.usage["output_tokens_details"] == {"thinking_tokens": 5}
        return
    first, second = ("input", "output") if client.dialect == "responses" else ("prompt", "completion")
    assert heard.usage[f"{first}_tokens"] == 137
    assert heard.usage[f"{first}_tokens_details"] == {"cached_tokens": 30, "cache_write_tokens": 7}
    assert heard.usage[f"{second}_tokens"] == 20
    assert heard.usage[f"{second}_tokens_details"]["reasoning_tokens"] == 5
    assert heard.usage["total_tokens"] == 157


def test_usage_that_nobody_wrote_grows_with_the_texts(plain: Client) -> None:
    with ScriptedModel() as model:
        short, long = plain.ask(model, "hi"), plain.ask(model, "hi " * 100)
    assert 0 < short.usage["input_tokens"] < long.usage["input_tokens"]
    assert 0 < short.usage["output_tokens"] < long.usage["output_tokens"]


def test_a_chat_stream_counts_only_when_asked() -> None:
    with ScriptedModel([Turn(text="x")]) as model:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        said = httpx.post(f"{model.openai_url}/chat/completions", json=body, trust_env=False).text
    assert "usage" not in said
    assert said.endswith("data: [DONE]\n\n")


def test_the_same_script_gives_the_same_bytes(client: Client) -> None:
    def once() -> bytes:
        with ScriptedModel([Turn(text="x", calls=CALLS)], salt="s", clock=ManualClock()) as model:
            return client.post(model).content

    assert once() == once()


def test_ids_of_two_servers_differ(client: Client) -> None:
    ids = []
    for _ in range(2):
        with ScriptedModel([Turn(calls=CALLS)]) as model:
            ids += [id for id, _, _ in client.ask(model).calls]
    assert len(set(ids)) == 4


def results(client: Client, calls: list[tuple[str, str, Any]], results: list[str]) -> dict[str, Any]:
    """The request that brings the results of these calls."""
    body = client.body("go")
    pairs = list(zip(calls, results, strict=False))
    match client.dialect:
        case "messages":
            uses = [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in calls]
            found = [
                {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": result}]}
                for (id, _, _), result in pairs
            ]
            body["messages"] += [{"role": "assistant", "content": uses}, {"role": "user", "content": found}]
        case "responses":
            body["input"] += [
                {"type": "function_call", "call_id": id, "name": name, "arguments": "{}"} for id, name, _ in calls
            ]
            body["input"] += [
                {"type": "function_call_output", "call_id": id, "output": result} for (id, _, _), result in pairs
            ]
        case "chat":
            made = [{"id": id, "type": "function", "function": {"name": n, "arguments": "{}"}} for id, n, _ in calls]
            body["messages"].append({"role": "assistant", "content": None, "tool_calls": made})
            body["messages"] += [
                {"role": "tool", "tool_call_id": id, "content": result} for (id, _, _), result in pairs
            ]
    return body


def test_results_of_tools_are_heard(client: Client) -> None:
    with ScriptedModel([Turn(calls=CALLS)]) as model:
        calls = client.ask(model, "go").calls
        heard = client.ask(model, body=results(client, calls, ["a cat", "a dog"]))
        asked = model.requests[-1].asked
    assert heard.text == "a dog"  # nothing is left in the script: the model echoes
    assert asked is not None
    assert asked.tool_results == ("a cat", "a dog")
    assert asked.user == "go"


def test_a_call_without_its_result_is_refused(client: Client) -> None:
    with ScriptedModel([Turn(calls=CALLS), Turn(text="never reached")]) as model:
        calls = client.ask(model, "go").calls
        answer = client.post(model, body=results(client, calls, ["only one"]))
        assert model.requests[-1].turn is None
    assert answer.status_code == 400
    assert calls[1][0] in answer.json()["error"]["message"]


def test_a_result_without_its_call_is_refused(client: Client) -> None:
    body = results(client, [("call_x", "look", {})], ["found"])
    key = "input" if client.dialect == "responses" else "messages"
    del body[key][1]
    with ScriptedModel() as model:
        answer = client.post(model, body=body)
    assert answer.status_code == 400
    assert "call_x" in answer.json()["error"]["message"]


@pytest.mark.parametrize("change", [{"model": ""}, {"messages": [], "input": []}, {"messages": "x", "input": 3}])
def test_a_bad_request_is_refused(client: Client, change: dict[str, Any]) -> None:
    with ScriptedModel() as model:
        answer = client.post(model, body={**client.body("hi"), **change})
    assert answer.status_code == 400
    assert "must be" in answer.json()["error"]["message"]


def test_a_body_that_is_no_json_is_refused(client: Client) -> None:
    with ScriptedModel() as model:
        answer = httpx.post(model.base_url + client.path, content=b"{no", trust_env=False)
        assert model.requests[0].body is None
    assert answer.status_code == 400


def test_messages_need_their_version_and_a_limit(plain: Client) -> None:
    with ScriptedModel() as model:
        url = f"{model.base_url}/v1/messages"
        assert "anthropic-version" in httpx.post(url, json=plain.body("hi"), trust_env=False).text
        assert "max_tokens" in plain.post(model, body={**plain.body("hi"), "max_tokens": 0}).text


def test_what_claude_puts_into_a_request_is_not_the_person(plain: Client) -> None:
    body = plain.body("x")
    body["system"] = [{"type": "text", "text": "You are a claude."}]
    body["messages"] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>\nBe brief."},
                {"type": "text", "text": "first"},
                {"type": "text", "text": "[Request interrupted by user]"},
                {"type": "text", "text": "<b>second</b>"},
            ],
        },
        {"role": "system", "content": "The folder is /tmp."},
    ]
    with ScriptedModel() as model:
        assert plain.ask(model, body=body).text == "<b>second</b>"
        asked = model.requests[0].asked
    assert asked is not None
    assert asked.said == ("first", "<b>second</b>")
    assert all(text in asked.system for text in ("You are a claude.", "Be brief.", "The folder is /tmp."))


CODEX_TOOLS = [
    {"type": "function", "name": "exec_command"},
    {"type": "custom", "name": "apply_patch"},
    {"type": "namespace", "name": "mcp__team", "tools": [{"type": "function", "name": "send_message"}]},
    {"type": "web_search"},
]


@pytest.mark.parametrize(
    ("call", "item"),
    [
        (
            ToolCall(name="mcp__team__send_message", arguments={"text": "hi"}),
            {"type": "function_call", "name": "send_message", "namespace": "mcp__team", "arguments": '{"text":"hi"}'},
        ),
        (
            ToolCall(name="apply_patch", arguments={"input": "*** Begin Patch"}),
            {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch"},
        ),
        (
            ToolCall(name="exec_command", arguments={"cmd": "ls"}),
            {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}'},
        ),
    ],
)
def test_tools_are_called_as_codex_knows_them(call: ToolCall, item: dict[str, Any]) -> None:
    body = {"model": "m", "input": "go", "tools": CODEX_TOOLS}
    with ScriptedModel([Turn(calls=(call,))]) as model:
        [made] = httpx.post(f"{model.openai_url}/responses", json=body, trust_env=False).json()["output"]
        asked = model.requests[0].asked
    assert {key: made[key] for key in made if key not in ("id", "call_id", "status")} == item
    assert asked is not None
    assert asked.tools == ("exec_command", "apply_patch", "web_search", "mcp__team__send_message")
