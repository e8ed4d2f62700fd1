from __future__ import annotations

import json

from manydesks.domain.errors import UnknownQuestion

QUESTION = {
    "questionId": "question_aaaaaaaa",
    "agent": "coder",
    "session": "session_1",
    "messageId": "console_1",
    "title": "Release",
    "question": "Deploy\nnow?",
    "options": [{"label": "yes", "value": "yes"}, {"label": "no", "value": "no"}],
    "waited": True,
    "askedAt": 0,
    "expiresAt": 1,
}


def test_questions(run, reader):
    reader.open = [QUESTION, {**QUESTION, "questionId": "question_b", "title": "", "options": []}]
    result = run("questions")
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["ID", "AGENT", "ASKED", "QUESTION", "OPTIONS"]
    assert "Release: Deploy now?" in first
    assert first.endswith("1 yes, 2 no")
    assert second.endswith("-")
    assert json.loads(run("questions", "--json").stdout)[0]["questionId"] == "question_aaaaaaaa"


def test_no_questions(run, reader):
    reader.open = []
    result = run("questions")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No agent waits for an answer." in result.stderr
    assert run("questions", "--json").stdout == "[]\n"


def test_answer(run, door, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ada")
    answered = {"questionId": "question_a", "agent": "coder", "selectedOption": "no", "text": "no"}
    door.answers["answer"] = answered
    result = run("answer", "question_a", "2")
    assert (result.exit_code, result.stdout) == (0, "question_a is answered (no); coder is told.\n")
    assert door.asked == [("answer", {"id": "question_a", "answer": "2", "by": "ada", "own_words": False})]
    door.answers["answer"] = {**answered, "selectedOption": None}
    assert run("answer", "question_a", "-", input="own words\n").stdout == "question_a is answered; coder is told.\n"
    assert door.asked[-1][1]["answer"] == "own words"
    assert json.loads(run("answer", "question_a", "x", "--json").stdout)["agent"] == "coder"


def test_an_answer_to_nothing(run, door):
    door.answers["answer"] = UnknownQuestion(question="question_x")
    result = run("answer", "question_x", "yes")
    assert result.exit_code == 2
    assert "There is no question 'question_x'" in result.stderr
