from __future__ import annotations

import pytest

from manydesks.domain.attachment import Attachment
from manydesks.domain.reading import readable

FILE = Attachment(name="plan.pdf", bytes=1_500, sha256="ab" * 32, path="files/abab/plan.pdf")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"operation": "message", "text": "Done."}, "Done."),
        ({"operation": "notice", "text": "It died."}, "It died."),
        ({"operation": "edit", "text": "Done!"}, "[edited] Done!"),
        ({"operation": "reaction", "text": "👍"}, "[reacted] 👍"),
        ({"operation": "card", "text": "Deploy"}, "[card] Deploy"),
        (
            {"operation": "ask_question", "text": "Deploy?", "question": "question_a"},
            "[question] Deploy?\n(to answer: manydesks answer question_a …)",
        ),
        ({"operation": "message", "text": "", "files": [FILE]}, "[file] plan.pdf (1.5 KB): files/abab/plan.pdf"),
        (
            {"operation": "message", "text": "Here.", "files": [FILE], "home": "/home/ada/"},
            "Here.\n[file] plan.pdf (1.5 KB): /home/ada/files/abab/plan.pdf",
        ),
        ({"operation": "message", "text": ""}, ""),
    ],
)
def test_every_kind_of_response_has_words(given: dict[str, object], shown: str) -> None:
    assert readable(**given) == shown  # type: ignore[arg-type]
