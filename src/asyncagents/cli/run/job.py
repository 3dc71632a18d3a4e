"""One run: find or create a session, admit the prompt, serve its tree, follow it until it rests."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from msgspec.structs import replace

from asyncagents.cli.ask.person import Asker
from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.cli.host import Host
from asyncagents.cli.run.arguments import Order
from asyncagents.cli.run.choose import Addressee
from asyncagents.cli.run.follow import follow
from asyncagents.cli.run.result import (
    HERE,
    Ending,
    Result,
    Where,
    close,
    exit_code,
    judged,
    last_answer,
    steps_of_turn,
    wait_of,
)
from asyncagents.cli.run.tool_view import Tools
from asyncagents.cli.run.view import JsonView, StreamView, TextView, View, Words
from asyncagents.cli.terminal.keyboard import find_keyboard
from asyncagents.cli.terminal.labels import moment
from asyncagents.cli.terminal.screen import Screen
from asyncagents.cli.terminal.signals import Signals
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.message import AssistantMessage, sort_key
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.event import Event, MessageUpdated, PartUpdated
from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.input.message import To

STOP_SECONDS = 5.0
STEPS = 1000
"""Messages read for the result: tokens and cost of a longer turn are summed up to this."""


async def supervised(job: "Job", signals: Signals, chosen: Addressee | None = None) -> int:
    """Run the job until it ends or a signal comes; return the exit code. `chosen`: see `RunJob.work`."""
    async with asyncio.TaskGroup() as group:
        work = group.create_task(job.work(chosen))
        obedience = group.create_task(job.obey(signals, work))
        work.add_done_callback(lambda done: obedience.cancel())
    if work.cancelled():
        return job.broken_off(signals.number or signal.SIGTERM)
    return job.ended(work.result())


Choose: TypeAlias = Callable[[Session | None], Addressee]
"""Chooses agent and model for a session, or a new one (None). Raises if they are known to be unusable."""


class Job:
    def __init__(
        self,
        host: Host,
        order: Order,
        choose: Choose,
        *,
        screen: Screen,
        where: Where = HERE,
    ) -> None:
        self._host = host
        self._order = order
        self._choose = choose
        self._screen = screen
        self._where = where
        self._view: View = JsonView()
        self._before: Entry | None = None
        """The newest message when this run began."""
        self._live = False
        """Another process ran the session when this run began."""
        self._tasks: tuple[BackgroundTask, ...] = ()
        """The tasks when this run began."""
        self._session_id: SessionId | None = None
        """Set once there is a session to continue."""
        self._ending: Ending = "stopped"
        self._keyboard = find_keyboard() if order.format == "text" and not order.detach else None
        self._asker: Asker | None = None

    async def work(self, chosen: Addressee | None) -> Result:
        """Admit the prompt and follow the tree. `chosen`: agent and model, if independent of the session."""
        session = await self._known_session()
        if self._order.sends and chosen is None:
            chosen = self._choose(session)
        async with self._host.events() as events:  # subscribe before the prompt is admitted
            if session is not None:
                await self._look_back(session.id)
            session_id, message_id = await self._admit(session, chosen)
            self._session_id = session_id
            if session is None and not self._fresh:
                await self._look_back(session_id)
            self._view = await self._make_view(session_id, message_id)
            if self._live and self._before is not None:
                self._show(self._before)
            return await self._go_on(session_id, message_id, events)

    @property
    def _fresh(self) -> bool:
        """Return whether the prompt is surely new: without a key it cannot be a repeat."""
        return self._order.sends and self._order.key is None

    async def _look_back(self, session_id: SessionId) -> None:
        self._before = next(iter(await self._host.messages(session_id, limit=1)), None)
        self._live = await self._host.is_run(session_id)
        self._tasks = await self._host.tasks.list(session_id)

    async def _admit(
        self, session: Session | None, chosen: Addressee | None
    ) -> tuple[SessionId, MessageId | None]:
        """Admit the prompt; a new session is created in the same transaction."""
        order = self._order
        if chosen is None:
            assert session is not None, "without a prompt a session is given"
            return session.id, None
        files = [path.absolute() for path in order.files]  # relative to the cwd, not to the session
        to = To(agent=chosen.agent, model=chosen.model, files=files)
        if session is not None:
            return session.id, await self._host.send(session.id, order.prompt, key=order.key, **to)
        session, message_id = await self._host.begin(
            order.prompt,
            title=order.title,
            directory=order.directory,
            key=order.key,
            permission=order.rules,
            **to,
        )
        return session.id, message_id

    async def _known_session(self) -> Session | None:
        if self._order.session is not None:
            return await self._host.find_session(self._order.session)
        if not self._order.newest:
            return None
        newest = await self._host.roots(self._order.directory, limit=1)
        if not newest:
            raise Complaint(
                f"there is no session of {self._order.directory} to continue",
                hint='`asyncagents run "Hello"` begins one; `asyncagents sessions --all` lists all',
                code=USAGE,
            )
        return newest[0]

    async def _go_on(
        self, session_id: SessionId, message_id: MessageId | None, events: AsyncIterator[Event]
    ) -> Result:
        if self._order.detach:
            return Result(session=session_id, message=message_id, tokens=Tokens.zero(), status="accepted")
        root_id = await self._host.root_of(session_id)
        if self._fresh or not await self._is_over(session_id, root_id, message_id):
            sent_before = None if self._fresh else message_id
            first = await self._host.answer_to(sent_before) if sent_before is not None else None
            self._host.serve_tree(root_id)
            if self._keyboard is not None:
                self._asker = Asker(self._host, root_id, screen=self._screen, keyboard=self._keyboard)
            await follow(self._host, root_id, events=events, view=self._view, asker=self._asker)
            await self._catch_up(session_id)
            if first is not None and message_id is not None:
                await self._repeat(session_id, message_id, first)
        return await self._result(session_id, root_id, message_id)

    async def _catch_up(self, session_id: SessionId) -> None:
        """Show stored messages whose events did not arrive, as when another process ran the session."""
        before = self._before
        for entry in await self._host.messages(session_id, limit=STEPS):
            if before is None or (sort_key(entry.info) >= sort_key(before.info) and entry != before):
                self._show(entry)

    async def _repeat(self, session_id: SessionId, message_id: MessageId, first: Entry) -> None:
        """Show the earlier answer again, if the session has not answered anew."""
        if await self._answer_to(session_id, message_id) == first:
            self._view.answer(first)

    def _show(self, entry: Entry) -> None:
        session_id = entry.info.session_id
        self._view.show(MessageUpdated(session_id=session_id, info=entry.info))
        for part in entry.parts:
            self._view.show(PartUpdated(session_id=session_id, part=part, time=SystemClock().now()))

    async def _is_over(self, session_id: SessionId, root_id: SessionId, message_id: MessageId | None) -> bool:
        """Show the stored answer and return True, if the prompt has one or no work is left."""
        if await self._host.at_work(root_id) or (
            message_id is None
            and self._keyboard is not None
            and await self._host.tasks.awaited(root_id, asks=True)
        ):
            return False
        if message_id is not None:
            answer = await self._answer_to(session_id, message_id)
        else:
            answer = await self._old_answer(session_id, root_id)
        if answer is not None:
            self._view.answer(answer)
        return answer is not None

    async def _answer_to(self, session_id: SessionId, message_id: MessageId) -> Entry | None:
        """Return the last answer: notices of tasks may have led to more after the first."""
        first = await self._host.answer_to(message_id)
        return first and last_answer(await self._host.messages(session_id, limit=STEPS), first)

    async def _old_answer(self, session_id: SessionId, root_id: SessionId) -> Entry:
        answer = await self._last_answer(session_id)
        if answer is None:
            hint = f"send it one, as in `asyncagents run --session {session_id} Hello`"
            raise Complaint(f"session {session_id} has no prompt yet", hint=hint, code=USAGE)
        state = "waits" if await self._host.statuses(root_id) else "is at rest"
        self._screen.note(f"session {session_id} {state}; this is its last answer:")
        return answer

    async def _last_answer(self, session_id: SessionId) -> Entry | None:
        entries = await self._host.messages(session_id, limit=STEPS)
        answers = [each for each in reversed(entries) if isinstance(each.info, AssistantMessage)]
        return next((each for each in answers if not _only_summary(each)), next(iter(answers), None))

    async def _result(
        self, session_id: SessionId, root_id: SessionId, message_id: MessageId | None
    ) -> Result:
        if message_id is not None:
            answer = await self._answer_to(session_id, message_id)
        else:
            answer = await self._last_answer(session_id)
        waits = [wait_of(each) for each in await self._host.tasks.awaited(root_id)]
        entries = await self._host.messages(session_id, limit=STEPS)
        result = judged(session_id, answer, steps_of_turn(entries, answer, message_id), tuple(waits))
        if self._ending == "cancelled" or await self._cut_off(session_id, answer):
            return replace(result, status="cancelled")
        return result

    async def _cut_off(self, session_id: SessionId, answer: Entry | None) -> bool:
        """Return whether tasks were cancelled after the answer: the session then gets no more notices."""
        said = answer.info.time.completed if answer is not None else None
        ended = [
            moment(task.completed_at)
            for task in await self._host.tasks.list(session_id)
            if task.parent_session_id == session_id and task.status == "cancelled" and task.completed_at
        ]
        return said is not None and any(at > said for at in ended)

    async def _make_view(self, session_id: SessionId, message_id: MessageId | None) -> View:
        match self._order.format:
            case "json":
                return JsonView()
            case "stream-json":
                tree = {session.id for session in await self._tree(session_id)}
                return StreamView(Ids(SystemClock(), SystemRng()), tree)
            case "text":
                words = Words(session_id, self._before, live=self._live, asked=message_id)
                sessions, asked = await self._tree(session_id), self._keyboard is not None
                tools = Tools(self._screen, session_id, sessions, asked=asked)
                tools.know(await self._old_entries(session_id), self._tasks)
                return TextView(self._screen, words, tools=tools, clock=SystemClock())

    async def _old_entries(self, session_id: SessionId) -> list[Entry]:
        """Return the messages complete when this run began, without the one another process is writing."""
        before = self._before
        if before is None:
            return []
        entries = await self._host.messages(session_id, limit=STEPS)
        old = [each for each in entries if sort_key(each.info) < sort_key(before.info)]
        return old if self._live else [*old, before]

    async def _tree(self, session_id: SessionId) -> list[Session]:
        found, ahead = [], [await self._host.session(await self._host.root_of(session_id))]
        while ahead:
            session = ahead.pop()
            found.append(session)
            ahead += await self._host.children(session.id)
        return found

    async def obey(self, signals: Signals, work: asyncio.Task[Result]) -> None:
        """On Ctrl-C abort the tree durably and let the job end; other signals only stop this process."""
        await signals.heard.wait()
        if signals.number == signal.SIGINT and self._session_id is not None:
            self._ending = "cancelled"
            if self._asker is not None:
                self._asker.leave()
            await self._host.abort(await self._host.root_of(self._session_id), seconds=0)
            self._screen.note("cancelling; Ctrl-C again quits at once")  # after the cancel is stored
            done, _ = await asyncio.wait([work], timeout=STOP_SECONDS)
            if done:
                return
            self._screen.tell("warning: the cancel is stored, but another process has not stopped yet")
        work.cancel()

    def broken_off(self, number: int) -> int:
        """Print how the run was interrupted, and return the exit code."""
        if self._session_id is None:
            self._screen.tell("stopped: `asyncagents sessions` shows whether the prompt was stored")
            return 128 + number
        self.ended(Result(session=self._session_id, tokens=Tokens.zero(), status=self._ending))
        return exit_code("cancelled") if self._ending == "cancelled" else 128 + number

    def ended(self, result: Result) -> int:
        self._view.end(result)
        close(self._screen, result, self._where)
        if result.status == "accepted" and self._order.format == "text":
            self._screen.say(f"{result.session}\n")
        return exit_code(result.status)


def _only_summary(entry: Entry) -> bool:
    """Return whether the message is a summary, which answers no prompt."""
    info = entry.info
    return isinstance(info, AssistantMessage) and bool(info.summary) and info.error is None
