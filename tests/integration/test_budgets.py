"""Budgets in a real office: what may begin, what is cut, what a person sees and answers, and what a kill leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from manydesks.domain.budget import MICROS, Amounts, Budget
from manydesks.store.reader import Reader
from manydesks.testing.model import ScriptedModel, ToolCall, Turn, Usage
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

KEY = "sk-really-secret-key-0123456789"

Make = Callable[..., OfficeProcess]


def paused(agent: str) -> Callable[[Reader], str | None]:
    def look(reader: Reader) -> str | None:
        (found,) = [row for row in reader.agents() if row["id"] == agent]
        return found["pauseReason"] if found["paused"] else None

    return look


def test_an_agent_without_room_is_paused_and_its_owner_answers(make_office: Make, shell: Shell) -> None:
    office = make_office(budget__per_agent_day_usd=1.0, budget__first_reserve_usd=0.1)
    office.start()
    shell.said("agent", "add", "bob", "--budget", "50runs/day")
    office.ask("!usage 1000 200 0.75\n!say done", to="assistant")
    sent = office.door.ask("send", text="!say later", to="assistant", sender="ada")
    reason = office.until(paused("assistant"))
    assert reason.startswith("assistant has used $0.75 of $1.00 on 20")
    assert reason.endswith("and the next run needs about $0.75.")
    # another agent works on, and status says why this one does not
    (other,) = office.ask("!say here", to="bob")["messages"]
    assert other["status"] == "completed"
    assert "assistant" in shell.said("status")
    assert reason in shell.said("agent", "show", "assistant")
    assert reason in shell.refusal("agent", "resume", "assistant")
    (question,) = shell.value("questions")
    assert question["agent"] == "assistant"
    said = shell.said("answer", question["questionId"], "1")
    assert said.strip().endswith("is answered (allow); assistant may use as much again.")
    (message,) = office.trace(sent["traceId"])["messages"]
    assert message["status"] == "completed"
    assert shell.value("questions") == []


def test_a_kill_between_reserve_and_settle_leaves_nothing_reserved(make_office: Make) -> None:
    settings = {"budget__per_day_usd": 1.0, "budget__first_reserve_usd": 0.9}
    office = make_office(**settings)
    office.start()
    office.door.ask("send", text="!usage 10 10 0.25\n!tool nothing {}\n!sleep 60", to="assistant", sender="ada")
    # its usage was written before the tool was called, and is in the store or still at the desk
    office.until(lambda reader: reader.events(0, 10_000, kinds=["tool_called"]))
    (line,) = _caps(office)
    assert (line["spent"], line["reserved"]) == (0.0, 0.9)
    office.kill()
    after = make_office(**settings)
    after.start()
    # the dead run is settled; it is tried again under a reservation of its own, of what the first one is known to use
    after.until(lambda reader: len(reader.events(0, 10_000, kinds=["budget_reserved"])) == 2)
    (line,) = _caps(after)
    assert (line["spent"], line["reserved"], line["left"]) == (0.25, 0.25, 0.5)


def _caps(office: OfficeProcess) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        budget = Budget(office=Amounts(usd=MICROS))
        return reader.caps(budget, max(row["day"] for row in reader.usage(by="day")["rows"]))
    finally:
        reader.close()


def test_a_trace_without_room_is_held_and_released(make_office: Make, shell: Shell) -> None:
    office = make_office(budget__per_trace_runs=1)
    office.start()
    for agent in ("bob", "cyd"):
        shell.said("agent", "add", agent)
    shell.said("team", "add", "crew", "--leader", "bob", "--member", "cyd")
    trace = office.ask("!say [@cyd: !say mine]", to="bob")
    (held,) = [message for message in trace["messages"] if message["agent"] == "cyd"]
    assert (held["status"], held["holdReason"]) == ("held", "budget")
    assert "`manydesks queue release" in held["responses"][0]["text"]
    # others of the same agent are not held
    (other,) = office.ask("!say yes", to="cyd")["messages"]
    assert other["status"] == "completed"
    shell.said("queue", "release", held["messageId"])
    after = office.trace(trace["traceId"])
    assert {message["status"] for message in after["messages"]} == {"completed"}


def test_usage_says_what_is_known_and_what_is_not(make_office: Make, shell: Shell) -> None:
    office = make_office()
    office.start()
    shell.said("agent", "add", "bob", "--budget", "5usd/day")
    office.ask("!usage 1000 200 0.75\n!say done", to="assistant")
    office.ask("!usage 30 4\n!say done", to="assistant")
    office.ask("!usage 5 5 0.5\n!fail permanent no", to="bob")
    found = shell.value("usage", "--by", "agent")
    rows = {row["agent"]: row for row in found["rows"]}
    ada = rows["assistant"]
    assert (ada["runs"], ada["inputTokens"], ada["outputTokens"], ada["costUsd"], ada["unknownCost"]) == (
        2, 1030, 204, 0.75, 1,
    )  # fmt: skip
    assert (rows["bob"]["failed"], rows["bob"]["costUsd"]) == (1, 0.5)
    assert (found["total"]["costUsd"], found["total"]["unknownCost"]) == (1.25, 1)
    table = shell.said("usage")
    assert "$1.2500" in table
    assert [line.split() for line in table.splitlines() if line.startswith("bob")][-1] == [
        "bob", "$5.00", "$0.50", "$0.00", "$4.50",
    ]  # fmt: skip
    assert shell.value("usage", "--by", "day")["rows"][0]["runs"] == 3
    assert shell.value("usage", "--by", "model")["rows"][0]["model"] == "rehearsal"
    assert shell.value("usage", "--since", "2999-01-01")["total"]["runs"] == 0
    assert "--since" in shell.refusal("usage", "--since", "yesterday")


def test_a_higher_cap_counts_while_the_office_is_open(make_office: Make, shell: Shell) -> None:
    office = make_office()
    office.home.prepare()
    office.home.settings_file.write_text("[budget]\nper_agent_day_runs = 1\n")
    office.start()
    office.ask("!say one", to="assistant")
    sent = office.door.ask("send", text="!say two", to="assistant", sender="ada")
    office.until(paused("assistant"))
    assert "is paused, so this waits" in office.door.ask("send", text="!say three", sender="ada")["notices"][0]
    office.home.settings_file.write_text("[budget]\nper_agent_day_runs = 10\n")
    (message,) = office.trace(sent["traceId"])["messages"]
    assert message["status"] == "completed"
    assert shell.value("questions") == []
    # two and three came to the agent together; its own cap goes before the office's
    shell.said("agent", "edit", "assistant", "--budget", "2runs/day")
    shell.said("send", "!say four", "--to", "assistant")
    assert "2 runs of 2 runs" in office.until(paused("assistant"))
    shell.said("agent", "edit", "assistant", "--budget", "none")
    office.until(lambda reader: reader.queue_status()["pending"] == 0)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(key=KEY) as model:
        yield model


def test_a_run_that_goes_over_its_budget_gets_no_more_model(make_office: Make, model: ScriptedModel) -> None:
    office = make_office(retry__max_attempts=2)
    office.home.prepare()
    office.home.settings_file.write_text(
        f'[upstreams.lm]\nkind = "anthropic"\nbase_url = "{model.base_url}"\nkey = "lm_key"\n'
        '[prices.lm]\nmodel = "scripted*"\ninput_usd = 1000.0\noutput_usd = 1000.0\n'
    )
    office.home.secrets_file.write_text(f'lm_key = "{KEY}"\n')
    office.home.secrets_file.chmod(0o600)
    office.start()
    office.door.ask(
        "agent_add", id="amy", provider="anthropic", model="scripted", options={"upstream": "lm"},
        budget="1000tokens/day",
    )  # fmt: skip
    # an agent that would go on for ever: each call uses 400
    call = ToolCall(name="send_message", arguments={"text": "on"})
    model.play(Turn(calls=(call,), usage=Usage(input=350, output=50), times=None))
    (message,) = office.ask("go", to="amy")["messages"]
    said = [response["text"] for response in message["responses"] if response["operation"] == "notice"]
    assert said == ["This run has used 1,200 tokens, and no more is left of amy's budget for the day, 1,000 tokens."]
    assert len(model.requests) == 3
    (run,) = message["runs"]
    assert run["costUsd"] == pytest.approx(1.2)
    # and no further run begins
    office.door.ask("send", text="again", to="amy", sender="ada")
    assert "1,200 tokens of 1,000 tokens" in office.until(paused("amy"))
