"""Puts the open asks of a session tree to the person at the terminal, while other work continues."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asyncagents.cli.ask.edit import edit_input
from asyncagents.cli.ask.reply import Chosen, chosen, options_chosen
from asyncagents.cli.ask.view import (
    ask_lines,
    choices,
    help_lines,
    question_choices,
    question_lines,
    whole_lines,
)
from asyncagents.cli.host import Host
from asyncagents.cli.terminal.keyboard import Keyboard
from asyncagents.cli.terminal.screen import Screen, one_line
from asyncagents.domain.call.ask import PermissionRequest, Question, QuestionRequest
from asyncagents.domain.call.call import Always, Answers, Once, Reject, Reply
from asyncagents.domain.call.waiting import Awaited
from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict, InvalidInput, NotFound

WHY = "tell the model why, and it goes on; Enter alone ends its turn > "
REMARK = "a remark for the model, or Enter alone > "
PATIENCE = 8
"""After this many checks a prompt that other output covers is shown again, even without a pause."""
LEFT = "left open: what runs now is finished first"


class Asker:
    """Asks one thing at a time, the oldest first; drops an ask that is answered elsewhere."""

    def __init__(self, host: Host, root_id: SessionId, *, screen: Screen, keyboard: Keyboard) -> None:
        self._host = host
        self._root_id = root_id
        self._screen = screen
        self._keyboard = keyboard
        self._news = asyncio.Event()
        self._over = False
        """The person has left the open asks."""
        self._asked: str | None = None
        """The ask that is on the screen."""
        self._prompt = ""
        self._away = False
        """The terminal belongs to an editor."""

    def look(self) -> None:
        """Check the open asks again: one may have been opened, or answered elsewhere."""
        self._news.set()

    def leave(self) -> None:
        self._over = True
        self._asked = None
        self._screen.unask()

    async def wanted(self) -> bool:
        """Return whether the tree has an open ask that can be put at this terminal."""
        if self._over or not (self._away or self._keyboard.ours):
            return False
        return self._away or bool(await self._open())

    async def _open(self) -> tuple[Awaited, ...]:
        return await self._host.tasks.awaited(self._root_id, asks=True)

    async def work(self) -> None:
        try:
            while not self._over:
                await self._pause()  # events before an ask are shown before it
                waiting = next(iter(await self._open()), None) if self._keyboard.ours else None
                if waiting is not None:
                    await self._ask(waiting)
                    self._news.set()
        finally:
            self._screen.unask()

    async def _pause(self) -> None:
        await self._news.wait()
        self._news.clear()

    async def _ask(self, waiting: Awaited) -> None:
        self._keyboard.forget()
        self._screen.show(ask_lines(waiting))
        self._asked = ask_id = waiting.ask_id
        async with asyncio.TaskGroup() as group:
            talk = group.create_task(self._talk(waiting))
            watch = group.create_task(self._watch(ask_id, talk))
            talk.add_done_callback(lambda done: watch.cancel())

    async def _watch(self, ask_id: str | None, talk: asyncio.Task[None]) -> None:
        """Cancel `talk` if the ask is answered elsewhere; repeat its prompt when other output covered it."""
        written, covered = self._screen.written, 0
        while self._asked == ask_id:
            await self._pause()
            if self._away:
                continue
            gone = all(each.ask_id != ask_id for each in await self._open())
            if self._asked != ask_id:  # answered here meanwhile: the reply must not be cancelled
                return
            if gone:
                self.end()
                talk.cancel()
                return
            covered = 0 if self._screen.asking or not self._prompt else covered + 1
            if covered and (written == self._screen.written or covered >= PATIENCE):
                self._screen.ask(self._prompt)
            written = self._screen.written

    def end(self) -> None:
        """Remove the ask on the screen, if there is one: it is no longer open."""
        if self._asked is not None:
            self._screen.unask()
            self._screen.tell("no longer asked: it was answered elsewhere, or its deadline has passed")
            self._asked = None

    async def _talk(self, waiting: Awaited) -> None:
        if waiting.permission is not None:
            reply = await self._permission(waiting, waiting.permission)
        else:
            assert waiting.question is not None, "an ask is a permission or a question"
            reply = await self._questions(waiting.question, remark=waiting.approval)
        ask_id, self._asked = self._asked, None
        if reply is None:
            self._over = True
            self._screen.tell(LEFT)
        elif ask_id is not None:
            await self._answer(ask_id, reply)

    async def _answer(self, ask_id: str, reply: Reply) -> None:
        try:
            await self._host.answer(ask_id, reply)
        except (Conflict, NotFound) as error:
            self._screen.tell(f"warning: {one_line(str(error))}")

    async def _permission(self, waiting: Awaited, request: PermissionRequest) -> Reply | None:
        while (line := await self._typed(choices(request))) is not None:
            try:
                choice = chosen(line, request)
                if choice.choice == "leave":
                    return None
                if choice.choice not in ("show", "help"):
                    return await self._decided(choice, waiting)
                shown = whole_lines(waiting, request) if choice.choice == "show" else help_lines(request)
                self._screen.show(shown)
            except InvalidInput as error:
                self._screen.tell(str(error))
        return None

    async def _decided(self, choice: Chosen, waiting: Awaited) -> Reply:
        match choice.choice:
            case "always":
                return Always()
            case "edit":
                return Once(await self._edited(waiting))
            case "reject":
                return Reject(choice.message or await self._typed(WHY) or "")
            case _:
                return Once()

    async def _edited(self, waiting: Awaited) -> dict[str, Any]:
        return await edit_input(waiting.input, typed=self._typed, lent=self._lent)

    @contextmanager
    def _lent(self) -> Iterator[None]:
        self._away = True
        try:
            with self._screen.lent():
                yield
        finally:
            self._away = False

    async def _questions(self, request: QuestionRequest, *, remark: bool) -> Reply | None:
        """Ask each question; `remark`: also offer a remark for the model with each answer."""
        answers: list[tuple[str, ...]] = []
        for question in request.questions:
            self._screen.show(question_lines(question))
            reply = await self._question(question, decision=remark)
            if not isinstance(reply, tuple):
                return reply
            said = await self._typed(REMARK) if remark else None
            answers.append((*reply, said) if said else reply)
        return Answers(tuple(answers))

    async def _question(self, question: Question, *, decision: bool) -> tuple[str, ...] | Reject | None:
        """Return the answers, None if it is left open. The options of a `decision` include its own no."""
        labels = {option.label for option in question.options}
        words = {"q"} if decision else {"q", "n"}
        while (line := await self._typed(question_choices(question, decision=decision))) is not None:
            if line in words - labels:
                return None if line == "q" else Reject(await self._typed(WHY) or "")
            try:
                return options_chosen(question, line)
            except InvalidInput as error:
                self._screen.tell(str(error))
        return None

    async def _typed(self, prompt: str) -> str | None:
        self._prompt = prompt
        self._screen.ask(prompt)
        try:
            line = await self._keyboard.line()
            if line is not None:
                self._screen.answered()
            return line
        finally:
            self._prompt = ""
            self._screen.unask()
