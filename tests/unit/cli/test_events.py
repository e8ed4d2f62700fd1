from __future__ import annotations

import json

import pytest

from manydesks.cli import events as command
from manydesks.domain.errors import LedgerPruned


def event(seq: int, kind: str = "message_enqueued", **changes):
    empty = dict.fromkeys(("trace", "message", "run", "session", "agent"))
    return {"seq": seq, "at": 1_700_000_000_000, "kind": kind, **empty, "data": {}, **changes}


def seqs(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines()]


def test_all_of_them_page_by_page(run, reader, monkeypatch):
    monkeypatch.setattr(command, "PAGE", 2)
    reader.ledger = [event(n) for n in range(1, 6)]
    assert seqs(run("events").stdout) == [1, 2, 3, 4, 5]
    assert seqs(run("events", "--after", "3").stdout) == [4, 5]
    assert [one["seq"] for one in json.loads(run("events", "--json").stdout)] == [1, 2, 3, 4, 5]


def test_an_empty_ledger(run):
    assert run("events").stdout == ""
    assert json.loads(run("events", "--json").stdout) == []


def test_filters(run, reader):
    reader.ledger = [event(1, "agent_added"), event(2, trace="t1"), event(3, "message_dead", trace="t1")]
    assert seqs(run("events", "--type", "agent_added", "--type", "message_dead").stdout) == [1, 3]
    assert seqs(run("events", "--trace", "t1").stdout) == [2, 3]


def test_a_kind_that_does_not_exist(run):
    result = run("events", "--type", "message_ded")
    assert result.exit_code == 2
    assert "There is no kind of event 'message_ded'; did you mean 'message_dead'?" in result.stderr


def test_a_line(monkeypatch):
    shown = command.event_line(event(7, agent="coder", message="m1", data={"reason": "a\nb\x1b", "n": 1, "x": None}))
    assert shown.startswith("       7  20")
    assert shown.endswith("message_enqueued    coder m1  reason=a b\\x1b n=1 x=null")


class TestFollow:
    @pytest.fixture
    def grows(self, reader):
        """Adds the next events at each wait, and ends with Ctrl-C."""

        def grow(*batches):
            left = list(batches)

            def step():
                if not left:
                    raise KeyboardInterrupt
                reader.ledger += left.pop(0)

            reader.after_wait = step

        return grow

    def test_from_now_on(self, run, reader, grows):
        reader.ledger = [event(1), event(2)]
        grows([event(3)], [], [event(4), event(5)])
        result = run("events", "-f")
        assert (result.exit_code, seqs(result.stdout), result.stderr) == (130, [3, 4, 5], "")

    def test_from_a_number(self, run, reader, grows):
        reader.ledger = [event(1), event(2)]
        grows([event(3)])
        assert seqs(run("events", "-f", "--after", "1").stdout) == [2, 3]

    def test_filtered(self, run, reader, grows):
        grows([event(1), event(2, "message_dead")], [event(3)], [event(4, "message_dead")])
        assert seqs(run("events", "-f", "--type", "message_dead").stdout) == [2, 4]

    def test_json_is_a_line_each(self, run, reader, grows):
        grows([event(1), event(2)])
        lines = run("events", "-f", "--json").stdout.splitlines()
        assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_all_that_are_kept(run, reader):
    """The whole ledger is what is left of it; whoever names a number hears when it is gone."""
    reader.kept_from = 3
    reader.ledger = [event(n) for n in range(3, 6)]

    def events(after, limit, kinds=None, trace=None):
        if after < 2:
            raise LedgerPruned(first=3)
        return [one for one in reader.ledger if one["seq"] > after]

    reader.events = events
    assert seqs(run("events").stdout) == [3, 4, 5]
    result = run("events", "--after", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("manydesks: The ledger begins at event 3: what was before it has been pruned.")
