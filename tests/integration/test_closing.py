"""Closing an office in good order and in none: what was under way is finished or given back, and answered once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from manydesks.domain.errors import NotAnswering
from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def quiet(reader: Reader) -> bool:
    return not any(reader.queue_status()[state] for state in ("pending", "processing", "outgoing"))


def under_way(id: str) -> Callable[[Reader], bool]:
    def found(reader: Reader) -> bool:
        message = reader.message(id)
        return message is not None and message["status"] == "processing"

    return found


def events(office: OfficeProcess, *kinds: str) -> list[dict[str, Any]]:
    reader = office.door.reader()
    try:
        return reader.events(0, 10_000, kinds=kinds)
    finally:
        reader.close()


def said(office: OfficeProcess, id: str) -> list[str]:
    reader = office.door.reader()
    try:
        return [r["text"] for r in reader.message(id)["responses"] if r["status"] == "acked"]
    finally:
        reader.close()


def test_work_under_way_is_finished_before_the_office_closes(office: OfficeProcess) -> None:
    id = office.door.ask("send", text="!sleep 0.5\n!say finished")["messageId"]
    office.until(under_way(id))
    assert office.stop() == 0
    assert said(office, id) == ["finished"]
    assert [event["kind"] for event in events(office)][-1] == "processor_stop"
    assert events(office, "message_returned") == []


@pytest.mark.slow
def test_work_that_takes_too_long_is_given_back_uncounted(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(runner__stop_seconds=1, retry__max_attempts=2)
    ids = [office.door.ask("send", text=text)["messageId"] for text in ("!say a", "!sleep 3\n!say b", "!say c")]
    office.start()
    office.until(lambda reader: bool(reader.events(0, 100, kinds=["message_completed"])))
    assert office.stop() == 0
    returned = events(office, "message_returned")
    assert [(event["message"], event["data"]["attempt"]) for event in returned] == [(ids[1], 0), (ids[2], 0)]
    assert events(office, "message_retried", "message_dead") == []
    assert said(office, ids[0]) == ["a"]

    office.start()
    office.until(quiet)
    assert [said(office, id) for id in ids] == [["a"], ["b"], ["c"]]
    assert [event["message"] for event in events(office, "message_completed")] == ids
    assert events(office, "output_discarded") == []


@pytest.mark.slow
def test_what_was_given_back_is_not_done_twice_when_it_comes_in_other_batches(
    make_office: Callable[..., OfficeProcess],
) -> None:
    """What lies in the desk's inbox from the claim that is over is no work any more."""
    office = make_office(runner__stop_seconds=0)
    texts = ["!sleep 30", *(f'!tool send_message {{"text": "note {n}"}}\n!say {n}' for n in range(3))]
    ids = [office.door.ask("send", text=text)["messageId"] for text in texts]
    office.start()
    office.until(under_way(ids[-1]))
    assert office.stop() == 0

    again = make_office(dispatch__batch=1, runner__run_seconds=1, retry__max_attempts=1)
    again.start()
    again.until(quiet)
    assert [said(again, id) for id in ids[1:]] == [[f"note {n}", str(n)] for n in range(3)]
    assert events(again, "output_discarded") == []


def test_an_office_that_nobody_watches_any_more_goes_on(
    shell: Shell, make_office: Callable[..., OfficeProcess]
) -> None:
    watched = shell.begin("up")
    assert watched.stdout is not None
    assert watched.stdout.readline().startswith("The office is open: ")
    watched.stdout.close()
    try:
        for text in ("one", "two"):
            assert make_office().ask(f"!say {text}")["messages"][0]["status"] == "completed"
        watched.terminate()
        assert watched.wait(30) == 0
    finally:
        watched.kill()
        watched.wait()
        assert watched.stderr is not None
        watched.stderr.close()


def test_an_office_that_is_down_is_closed_already(shell: Shell, office: OfficeProcess) -> None:
    os.kill(office.pid, signal.SIGINT)
    assert office.wait() == 0
    assert shell.run("down").stderr == "manydesks: No office was running.\n"


@pytest.mark.slow
def test_a_command_that_waits_gets_its_answer_from_the_next_host(shell: Shell, office: OfficeProcess) -> None:
    waiting = shell.begin("send", "!sleep 1\n!say survived", "--wait")
    office.until(lambda reader: reader.queue_status()["processing"] == 1)
    office.kill()
    assert waiting.poll() is None
    office.start()
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, "survived\n")
    assert "Traceback" not in err
    (event,) = events(office, "response_delivered")
    assert said(office, event["message"]) == ["survived"]


@pytest.mark.parametrize("command", ["down", "restart"])
def test_the_time_given_is_all_that_is_waited_for_a_host_that_hangs(
    shell: Shell, office: OfficeProcess, command: str
) -> None:
    os.kill(office.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = shell.run(command, "--timeout", "2")
        took = time.monotonic() - began
    finally:
        os.kill(office.pid, signal.SIGCONT)
    assert done.returncode == 1
    assert f"`kill -9 {office.pid}` ends it, then `manydesks up`" in done.stderr
    # the interpreter's start on a busy machine is allowed for
    assert 2 <= took < 10
    # it was told to end, and does so when it can
    assert office.wait() == 0


@pytest.mark.slow
def test_a_host_that_hangs_changes_nothing_by_other_hands(shell: Shell, office: OfficeProcess) -> None:
    before = office.ask("hello")["traceId"]
    os.kill(office.pid, signal.SIGSTOP)
    try:
        with pytest.raises(NotAnswering):
            office.door.ask("agent_add", id="amy")
        # reading goes on
        assert shell.value("trace", before)["traceId"] == before
    finally:
        os.kill(office.pid, signal.SIGCONT)
    # it heard the question, and answers it late: once
    office.until(lambda reader: [agent["id"] for agent in reader.agents()] == ["amy", "assistant"])
    assert office.ask("hello")["messages"][0]["status"] == "completed"
