"""A talk with agents, line by line: what is typed is sent, what comes back is shown, questions are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.cli import exits
from manydesks.cli.answers import Answer, failures, setbacks, verdict
from manydesks.cli.invocation import Invocation
from manydesks.cli.keyboard import Keyboard
from manydesks.cli.output import dumps
from manydesks.cli.response import shown
from manydesks.cli.sender import login_name
from manydesks.cli.text import cut, harmless, one_line
from manydesks.cli.waiting import Waiting, tell_on
from manydesks.domain.address import Tag, leading, parse
from manydesks.domain.errors import ManyDesksError
from manydesks.domain.ids import new_id

HELP = """\
/answer ID TEXT  answer a question: an option's number, or your own words
/questions       the questions that are open
/history         what was said before
/quit            leave, as Ctrl-D
Ctrl-C stops waiting, not the work. Any other line is sent; '@coder …' and '[@coder: …]' reach others than whom you
talk with, and '/compact' and the like are commands of the agent's provider."""

#: of a text that was said before, what is shown
EXCERPT = 400


class Talk:
    """With one agent, a team, a room (`#team`), or, without a name, whoever gets what names nobody."""

    def __init__(self, invocation: Invocation, keyboard: Keyboard, who: str | None, *, timeout: float) -> None:
        self._invocation = invocation
        self._keyboard = keyboard
        self._who = who
        self._timeout = timeout
        self._out = invocation.out
        #: what may still bring answers
        self._open: list[Waiting] = []
        #: questions that the person does not want to answer now
        self._skipped: set[str] = set()
        self._worst = exits.OK
        #: it was said that no office runs
        self._closed = False

    def run(self) -> int:
        """Until the last line. At a terminal what goes wrong is said and the talk goes on; else it is the exit code."""
        prompt = f"{one_line(self._who) if self._who else ''}> "
        while True:
            try:
                line = self._keyboard.line(prompt)
                if line is None or line.strip() in ("/quit", "/exit"):
                    break
                self._catch_up()
                if line.strip():
                    self._take(line)
            except KeyboardInterrupt:
                if not self._keyboard.terminal:
                    raise
                self._out.line()
                self._out.note("Ctrl-D leaves.")
            except ManyDesksError as error:
                self._failed(str(error), error.exit_code or exits.FAILED)
        self._left_open()
        return exits.OK if self._keyboard.terminal else self._worst

    def show_history(self, most: int) -> None:
        """What was said before, and for the arrow keys what the person said."""
        known = self._invocation.reader.history(self._circle(), channel="console", limit=most)
        for row in known:
            text = "(erased)" if row["text"] is None else cut(one_line(row["text"]), EXCERPT)
            name = row["agent"] if row["role"] == "assistant" else row["sender"]
            self._out.line(f"{self._out.paint(f'{one_line(name)}:', bold=True)} {text}")
        self._keyboard.remember(row["text"] for row in known if row["role"] == "user" and row["text"])

    def _circle(self) -> list[str] | None:
        """Whose history it is: one agent's, a team's, everybody's."""
        if self._who is None:
            return None
        teams = {team["id"]: team["members"] for team in self._invocation.reader.teams()}
        return list(teams.get(self._who.removeprefix("#").lower(), [self._who.lower()]))

    def _take(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        match word:
            case "/help":
                self._out.line(HELP)
            case "/history":
                self.show_history(50)
            case "/questions":
                self._questions()
            case "/answer":
                id, _, answer = rest.strip().partition(" ")
                self._answer(id, answer)
            case _:
                self._send(line)

    def _send(self, text: str) -> None:
        to = None if self._who is None or self._addressed(text) else self._who
        accepted = self._invocation.door.ask(
            "send", text=text, to=to, sender=login_name(), message_id=new_id("console")
        )
        for notice in accepted["notices"]:
            self._out.note(notice)
        if accepted["messages"]:
            waiting = Waiting(self._invocation, accepted["traceId"], tell=self._tell)
            self._open.append(waiting)
            self._attend(waiting)

    def _addressed(self, text: str) -> bool:
        """Whether the line names agents itself; a name that nobody has is text."""
        if any(isinstance(piece, Tag) for piece in parse(text).pieces):
            return True
        start = leading(text)
        if start is None:
            return False
        reader = self._invocation.reader
        known = {row["id"] for row in (*reader.agents(), *reader.teams())} | {"default"}
        return any(id in known for id in start.ids)

    def _tell(self, answer: Answer) -> None:
        if self._out.json:
            self._out.line(dumps(answer.as_json()))
            self._out.flush()
        elif not self._keyboard.terminal:
            tell_on(self._out, self._invocation)(answer)
        elif not answer.obituary:
            self._out.answer(shown(answer.response, self._invocation.home.path), agent=answer.agent)

    def _attend(self, waiting: Waiting) -> None:
        """Wait for the answers; a question in between is put to the person."""
        deadline = self._invocation.clock.monotonic() + round(self._timeout * 1000)
        self._closed = False
        while True:
            try:
                done = waiting.wait(deadline, office=True, until=lambda: self._stirs(waiting))
            except KeyboardInterrupt:
                if not self._keyboard.terminal:
                    raise
                self._out.note("The work goes on; what comes is shown after your next line. Ctrl-D leaves.")
                return
            if done:
                self._ended(waiting)
                return
            question = self._question_in(waiting)
            if question is None:
                self._late(waiting)
                return
            answer = self._keyboard.line("answer> ")
            if answer is None or answer.strip() in ("", "/skip"):
                self._skipped.add(question["questionId"])
                continue
            try:
                self._answer(question["questionId"], answer)
            except ManyDesksError as error:  # such as a number that no option has
                self._failed(str(error), error.exit_code or exits.FAILED)
            deadline = self._invocation.clock.monotonic() + round(self._timeout * 1000)

    def _stirs(self, waiting: Waiting) -> bool:
        """Whether the person is asked; on the way it is said that the office has closed, which only takes longer."""
        if not self._closed and not self._invocation.door.runs():
            self._closed = True
            self._out.note("The office is closed; what was sent is stored, and answered when it is up again.")
        return self._question_in(waiting) is not None

    def _question_in(self, waiting: Waiting) -> Mapping[str, Any] | None:
        """One that this trace waits for and that was shown."""
        messages = {message["messageId"] for message in waiting.trace["messages"]}
        asked = {
            response.get("questionId")
            for message in waiting.trace["messages"]
            for response in message["responses"]
            if response["status"] not in ("pending", "sending")
        }
        for question in self._invocation.reader.questions() if asked - {None} else ():
            id = question["questionId"]
            if id in asked and id not in self._skipped and question["messageId"] in messages:
                return question
        return None

    def _answer(self, id: str, answer: str) -> None:
        self._invocation.door.ask("answer", id=id, answer=answer.strip(), by=login_name(), own_words=False)

    def _questions(self) -> None:
        found = self._invocation.reader.questions()
        if not found:
            self._out.note("No agent waits for an answer.")
        for row in found:
            self._out.line(f"{row['questionId']}  {one_line(row['agent'])}: {harmless(row['question'])}")
            for number, option in enumerate(row["options"], 1):
                self._out.line(f"  {number} {one_line(option['label'])}")

    def _catch_up(self) -> None:
        """What earlier lines have brought since."""
        for waiting in tuple(self._open):
            waiting.look()
            if waiting.done:
                self._ended(waiting)

    def _ended(self, waiting: Waiting) -> None:
        self._open.remove(waiting)
        for reason in failures(waiting.trace):
            self._failed(reason, exits.FAILED)
        if verdict(waiting.trace) != "completed":
            self._worst = self._worst or exits.FAILED

    def _late(self, waiting: Waiting) -> None:
        """It stays open: what comes later is still shown, as long as the talk goes on."""
        for reason in setbacks(waiting.trace):
            self._failed(reason, exits.TIMED_OUT)
        first = waiting.trace["messages"][0]["messageId"]
        self._failed(f"{first} has not ended within {self._timeout:g} s; it goes on.", exits.TIMED_OUT)

    def _failed(self, sentence: str, code: int) -> None:
        self._worst = self._worst or code
        self._out.error(sentence)

    def _left_open(self) -> None:
        self._catch_up()
        for waiting in self._open:
            first = waiting.trace["messages"][0]["messageId"]
            self._out.note(f"{first} goes on without you; `manydesks trace {first}` shows it.")
