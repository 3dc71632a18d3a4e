"""Puts the open asks of a session tree to the person at the terminal, while other work continues."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asyncagents.cli.ask.edit import edit_input
from asyncagents.cli.ask.reply import PermissionChoice, parse_choice, parse_options
from asyncagents.cli.ask.view import (
    ask_lines,
    choice_prompt,
    full_lines,
    help_lines,
    question_lines,
    question_prompt,
)
from asyncagents.cli.host import Host
from asyncagents.cli.terminal.keyboard import Keyboard
from asyncagents.cli.terminal.screen import Screen, one_line
from asyncagents.domain.call.ask import PermissionRequest, Question, QuestionRequest
from asyncagents.domain.call.call import Always, Answers, Once, Reject, Reply
from asyncagents.domain.call.waiting import OpenCall
from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict, InvalidInput, NotFound

REASON_PROMPT = "tell the model why, and it goes on; Enter alone ends its turn > "
REMARK_PROMPT = "a remark for the model, or Enter alone > "
MAX_COVERED_LOOKS = 8
"""After this many checks a prompt that other output covers is shown again, even without a pause."""
LEFT_OPEN = "left open: what runs now is finished first"


class Asker:
    """Asks one thing at a time, the oldest first; drops an ask that is answered elsewhere."""

    def __init__(self, host: Host, root_id: SessionId, *, screen: Screen, keyboard: Keyboard) -> None:
        self._host = host
        self._root_id = root_id
        self._screen = screen
        self._keyboard = keyboard
        self._changed = asyncio.Event()
        self._stopped = False
        """The person has left the open asks."""
        self._current_ask_id: str | None = None
        """The ask that is on the screen."""
        self._prompt = ""
        self._in_editor = False
        """The terminal belongs to an editor."""

    def recheck(self) -> None:
        """Check the open asks again: one may have been opened, or answered elsewhere."""
        self._changed.set()

    def stop_asking(self) -> None:
        self._stopped = True
        self._current_ask_id = None
        self._screen.clear_prompt()

    async def has_open_asks(self) -> bool:
        """Return whether the tree has an open ask that can be put at this terminal."""
        if self._stopped or not (self._in_editor or self._keyboard.is_foreground):
            return False
        return self._in_editor or bool(await self._open_asks())

    async def _open_asks(self) -> tuple[OpenCall, ...]:
        return await self._host.tasks.list_awaited(self._root_id, asks=True)

    async def work(self) -> None:
        try:
            while not self._stopped:
                await self._wait_for_change()  # events before an ask are shown before it
                open_call = (
                    next(iter(await self._open_asks()), None) if self._keyboard.is_foreground else None
                )
                if open_call is not None:
                    await self._ask(open_call)
                    self._changed.set()
        finally:
            self._screen.clear_prompt()

    async def _wait_for_change(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def _ask(self, open_call: OpenCall) -> None:
        self._keyboard.discard_input()
        self._screen.show_lines(ask_lines(open_call))
        self._current_ask_id = ask_id = open_call.ask_id
        async with asyncio.TaskGroup() as group:
            talk = group.create_task(self._handle_ask(open_call))
            watch = group.create_task(self._watch_ask(ask_id, talk))
            talk.add_done_callback(lambda done: watch.cancel())

    async def _watch_ask(self, ask_id: str | None, talk: asyncio.Task[None]) -> None:
        """Cancel `talk` if the ask is answered elsewhere; repeat its prompt when other output covered it."""
        written, covered = self._screen.write_count, 0
        while self._current_ask_id == ask_id:
            await self._wait_for_change()
            if self._in_editor:
                continue
            gone = all(each.ask_id != ask_id for each in await self._open_asks())
            if self._current_ask_id != ask_id:  # answered here meanwhile: the reply must not be cancelled
                return
            if gone:
                self.dismiss()
                talk.cancel()
                return
            covered = 0 if self._screen.prompt_visible or not self._prompt else covered + 1
            if covered and (written == self._screen.write_count or covered >= MAX_COVERED_LOOKS):
                self._screen.show_prompt(self._prompt)
            written = self._screen.write_count

    def dismiss(self) -> None:
        """Remove the ask on the screen, if there is one: it is no longer open."""
        if self._current_ask_id is not None:
            self._screen.clear_prompt()
            self._screen.print_line("no longer asked: it was answered elsewhere, or its deadline has passed")
            self._current_ask_id = None

    async def _handle_ask(self, open_call: OpenCall) -> None:
        if open_call.permission is not None:
            reply = await self._ask_permission(open_call, open_call.permission)
        else:
            assert open_call.question is not None, "an ask is a permission or a question"
            reply = await self._ask_questions(open_call.question, remark=open_call.approval)
        ask_id, self._current_ask_id = self._current_ask_id, None
        if reply is None:
            self._stopped = True
            self._screen.print_line(LEFT_OPEN)
        elif ask_id is not None:
            await self._send_reply(ask_id, reply)

    async def _send_reply(self, ask_id: str, reply: Reply) -> None:
        try:
            await self._host.answer(ask_id, reply)
        except (Conflict, NotFound) as error:
            self._screen.print_line(f"warning: {one_line(str(error))}")

    async def _ask_permission(self, open_call: OpenCall, request: PermissionRequest) -> Reply | None:
        while (line := await self._read_line(choice_prompt(request))) is not None:
            try:
                choice = parse_choice(line, request)
                if choice.choice == "leave":
                    return None
                if choice.choice not in ("show", "help"):
                    return await self._build_reply(choice, open_call)
                shown = full_lines(open_call, request) if choice.choice == "show" else help_lines(request)
                self._screen.show_lines(shown)
            except InvalidInput as error:
                self._screen.print_line(str(error))
        return None

    async def _build_reply(self, choice: PermissionChoice, open_call: OpenCall) -> Reply:
        match choice.choice:
            case "always":
                return Always()
            case "edit":
                return Once(await self._edit_input(open_call))
            case "reject":
                return Reject(choice.message or await self._read_line(REASON_PROMPT) or "")
            case _:
                return Once()

    async def _edit_input(self, open_call: OpenCall) -> dict[str, Any]:
        return await edit_input(open_call.input, typed=self._read_line, lent=self._release_terminal)

    @contextmanager
    def _release_terminal(self) -> Iterator[None]:
        self._in_editor = True
        try:
            with self._screen.suspend_output():
                yield
        finally:
            self._in_editor = False

    async def _ask_questions(self, request: QuestionRequest, *, remark: bool) -> Reply | None:
        """Ask each question; `remark`: also offer a remark for the model with each answer."""
        answers: list[tuple[str, ...]] = []
        for question in request.questions:
            self._screen.show_lines(question_lines(question))
            reply = await self._ask_question(question, decision=remark)
            if not isinstance(reply, tuple):
                return reply
            line = await self._read_line(REMARK_PROMPT) if remark else None
            answers.append((*reply, line) if line else reply)
        return Answers(tuple(answers))

    async def _ask_question(self, question: Question, *, decision: bool) -> tuple[str, ...] | Reject | None:
        """Return the answers, None if it is left open. The options of a `decision` include its own no."""
        labels = {option.label for option in question.options}
        words = {"q"} if decision else {"q", "n"}
        while (line := await self._read_line(question_prompt(question, decision=decision))) is not None:
            if line in words - labels:
                return None if line == "q" else Reject(await self._read_line(REASON_PROMPT) or "")
            try:
                return parse_options(question, line)
            except InvalidInput as error:
                self._screen.print_line(str(error))
        return None

    async def _read_line(self, prompt: str) -> str | None:
        self._prompt = prompt
        self._screen.show_prompt(prompt)
        try:
            line = await self._keyboard.read_line()
            if line is not None:
                self._screen.mark_answered()
            return line
        finally:
            self._prompt = ""
            self._screen.clear_prompt()
