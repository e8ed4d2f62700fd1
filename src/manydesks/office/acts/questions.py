"""Questions of agents, and people's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.office.acts.base import Act, Means, strings, texts


class QuestionActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store

    def acts(self) -> Mapping[str, Act]:
        return {"questions": self.questions, "answer": self.answer}

    async def questions(self) -> dict[str, Any]:
        return {"questions": await self._store.open_questions()}

    async def answer(self, *, id: str, answer: str, by: str = "you", own_words: bool = False) -> dict[str, Any]:
        """A person's answer to an agent's question: an option, or own words, also those that look like an option."""
        texts(answer=answer)
        strings(id=id, by=by)
        return await self._store.answer_question(id, answer, by=by, own_words=own_words is True)
