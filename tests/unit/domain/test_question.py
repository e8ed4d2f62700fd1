from __future__ import annotations

import itertools

import pytest

from manydesks.domain.attachment import is_file_name
from manydesks.domain.card import read_card, readable
from manydesks.domain.question import Option, Question, chosen, read_question
from manydesks.domain.states import QUESTION_MOVES, QuestionState, may_move

OPTIONS = (Option(label="Yes, now", value="yes"), Option(label="No", value="no"), Option(label="1", value="one"))


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("yes", "yes"), ("YES", "yes"), (" yes, NOW ", "yes"), ("no", "no"), ("2", "no"),
        ("1", "one"),  # a label before a number
        ("3", "one"), ("0", None), ("4", None), ("-1", None), ("²", None), ("maybe", None), ("", None),
        ("9" * 5000, None),
    ],
)  # fmt: skip
def test_which_option_an_answer_means(said: str, value: str | None) -> None:
    option = chosen(OPTIONS, said)
    assert (option.value if option else None) == value


def question(text: str = "Deploy?", *labels: str, title: str = "", id: str = "question_1") -> Question:
    return Question(id=id, title=title, question=text, options=tuple(Option(label=one, value=one) for one in labels))


def test_the_same_question_is_the_same_text_with_the_same_options() -> None:
    assert question("a", "x", title="one", id="question_1").key == question("a", "x", title="two", id="question_2").key
    different = [question("a"), question("b"), question("a", "x"), question("a", "x", "y"), question("a", "y", "x")]
    assert all(one.key != other.key for one, other in itertools.combinations(different, 2))


def test_a_question_reads_well_without_buttons() -> None:
    assert question("Deploy?", "yes", "no", title="Release").readable() == "Release\nDeploy?\n  1. yes\n  2. no"


def test_what_a_desk_wrote_is_read() -> None:
    content = {"questionId": "question_1", "question": "Deploy?", "options": [{"label": "yes"}]}
    assert read_question(content) == question("Deploy?", "yes")
    assert read_question({**content, "question": " "}) is None


def test_a_question_ends_once() -> None:
    for before, after in itertools.product(QuestionState, QuestionState):
        assert may_move(before, after) == (before == QuestionState.ASKED and after != before)
    assert set(QUESTION_MOVES) == set(QuestionState)


def test_a_card_has_nothing_that_a_card_has_not() -> None:
    card = read_card({"title": "Done", "script": "x", "actions": [{"label": "a", "url": "HTTPS://x", "on": "y"}]})
    assert card == {
        "title": "Done",
        "description": None,
        "fields": [],
        "actions": [{"label": "a", "url": "HTTPS://x"}],
    }
    assert readable(card) == "Done\na: HTTPS://x"
    for bad in (None, [], {}, {"title": 1}, {"title": "a", "fields": {}}, {"title": "a", "description": 5}):
        assert read_card(bad) is None
    assert read_card({"title": "a", "actions": [{"label": "a", "url": "javascript:x"}]}) is None


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("a.txt", True), ("Bericht über Öl.pdf", True), ("", False), (".", False), ("..", False), ("a/b", False),
        ("a\\b", False), ("a\nb", False), ("a\0", False), (" a", False), ("ö" * 101, False), ("x" * 200, True),
        (7, False),
    ],
)  # fmt: skip
def test_names_of_files(name: object, fine: bool) -> None:
    assert is_file_name(name) is fine
