"""One run: find or create a session, admit the prompt, serve its tree, follow it until it rests."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.cli.ask.person import Asker
from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.host import Host
from asyncagents.cli.run.arguments import RunArguments
from asyncagents.cli.run.choose import AgentChoice
from asyncagents.cli.run.follow import follow_tree
from asyncagents.cli.run.result import (
    LOCAL,
    RunLocation,
    RunResult,
    RunStatus,
    build_result,
    exit_code,
    last_answer,
    newest_answer,
    print_closing,
    steps_of_turn,
    wait_of,
)
from asyncagents.cli.run.tool_view import ToolView
from asyncagents.cli.run.view import JsonView, StreamView, TextTracker, TextView, View
from asyncagents.cli.terminal.keyboard import find_keyboard
from asyncagents.cli.terminal.labels import parse_time
from asyncagents.cli.terminal.screen import Screen
from asyncagents.cli.terminal.signals import Signals
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import sort_key
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.event import Event, MessageUpdated, PartUpdated
from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.input.message import PromptOptions

STOP_SECONDS = 5.0
MAX_STEPS = 1000
"""Messages read for the result: tokens and cost of a longer turn are summed up to this."""


async def run_with_signals(job: "RunJob", signals: Signals, choice: AgentChoice | None = None) -> int:
    """Run the job until it ends or a signal comes; return the exit code. `choice`: see `RunJob.work`."""
    async with asyncio.TaskGroup() as group:
        work = group.create_task(job.work(choice))
        obedience = group.create_task(job.obey_signals(signals, work))
        work.add_done_callback(lambda done: obedience.cancel())
    if work.cancelled():
        return job.report_interrupted(signals.number or signal.SIGTERM)
    return job.report_result(work.result())


class SessionHistory(Struct, frozen=True):
    """The messages of a session, read once for display and result, and the answer of the run."""

    entries: tuple[MessageWithParts, ...]
    answer: MessageWithParts | None


ChooseAgent: TypeAlias = Callable[[Session | None], AgentChoice]
"""Chooses agent and model for a session, or a new one (None). Raises if they are known to be unusable."""


class RunJob:
    def __init__(
        self,
        host: Host,
        arguments: RunArguments,
        choose: ChooseAgent,
        *,
        screen: Screen,
        location: RunLocation = LOCAL,
    ) -> None:
        self._host = host
        self._arguments = arguments
        self._choose = choose
        self._screen = screen
        self._location = location
        self._view: View = JsonView()
        self._last_before: MessageWithParts | None = None
        """The newest message when this run began."""
        self._was_running = False
        """Another process ran the session when this run began."""
        self._tasks_before: tuple[BackgroundTask, ...] = ()
        """The tasks when this run began."""
        self._session_id: SessionId | None = None
        """Set once there is a session to continue."""
        self._status: RunStatus = "stopped"
        self._keyboard = find_keyboard() if arguments.format == "text" and not arguments.detach else None
        self._asker: Asker | None = None

    async def work(self, choice: AgentChoice | None) -> RunResult:
        """Admit the prompt and follow the tree. `choice`: agent and model, if independent of the session."""
        session = await self._known_session()
        if self._arguments.has_prompt and choice is None:
            choice = self._choose(session)
        async with self._host.events() as events:  # subscribe before the prompt is admitted
            if session is not None:
                await self._read_history(session.id)
            session_id, message_id = await self._admit(session, choice)
            self._session_id = session_id
            if session is None and not self._is_new_prompt:
                await self._read_history(session_id)
            self._view = await self._make_view(session_id, message_id)
            if self._was_running and self._last_before is not None:
                self._show(self._last_before)
            return await self._follow(session_id, message_id, events)

    @property
    def _is_new_prompt(self) -> bool:
        """Return whether the prompt is surely new: without a key it cannot be a repeat."""
        return self._arguments.has_prompt and self._arguments.key is None

    async def _read_history(self, session_id: SessionId) -> None:
        self._last_before = next(iter(await self._host.messages(session_id, limit=1)), None)
        self._was_running = await self._host.is_running(session_id)
        self._tasks_before = await self._host.tasks.list(session_id)

    async def _admit(
        self, session: Session | None, choice: AgentChoice | None
    ) -> tuple[SessionId, MessageId | None]:
        """Admit the prompt; a new session is created in the same transaction."""
        arguments = self._arguments
        if choice is None:
            assert session is not None, "without a prompt a session is given"
            return session.id, None
        files = [path.absolute() for path in arguments.files]  # relative to the cwd, not to the session
        options = PromptOptions(agent=choice.agent, model=choice.model, files=files)
        if session is not None:
            return session.id, await self._host.send(
                session.id, arguments.prompt, key=arguments.key, **options
            )
        session, message_id = await self._host.begin(
            arguments.prompt,
            title=arguments.title,
            directory=arguments.directory,
            key=arguments.key,
            permission=arguments.rules,
            **options,
        )
        return session.id, message_id

    async def _known_session(self) -> Session | None:
        if self._arguments.session is not None:
            return await self._host.find_session(self._arguments.session)
        if not self._arguments.newest:
            return None
        newest = await self._host.roots(self._arguments.directory, limit=1)
        if not newest:
            raise CliError(
                f"there is no session of {self._arguments.directory} to continue",
                hint='`asyncagents run "Hello"` begins one; `asyncagents sessions --all` lists all',
                code=USAGE,
            )
        return newest[0]

    async def _follow(
        self, session_id: SessionId, message_id: MessageId | None, events: AsyncIterator[Event]
    ) -> RunResult:
        if self._arguments.detach:
            return RunResult(session=session_id, message=message_id, tokens=Tokens.zero(), status="accepted")
        root_id = await self._host.root_of(session_id)
        history = None
        if not self._is_new_prompt:
            history = await self._show_if_answered(session_id, root_id, message_id)
        if history is None:
            history = await self._serve_and_follow(session_id, root_id, message_id, events)
        return await self._read_result(session_id, root_id, message_id, history)

    async def _serve_and_follow(
        self,
        session_id: SessionId,
        root_id: SessionId,
        message_id: MessageId | None,
        events: AsyncIterator[Event],
    ) -> SessionHistory:
        """Serve the tree and show it until it rests; show an earlier answer again if there is no new one."""
        sent_before = None if self._is_new_prompt else message_id
        first = await self._host.answer_to(sent_before) if sent_before is not None else None
        self._host.serve_tree(root_id)
        if self._keyboard is not None:
            self._asker = Asker(self._host, root_id, screen=self._screen, keyboard=self._keyboard)
        await follow_tree(self._host, root_id, events=events, view=self._view, asker=self._asker)
        history = await self._read_session(session_id, message_id)
        self._show_missed(history.entries)
        if first is not None and history.answer == first:
            self._view.show_answer(first)
        return history

    async def _read_session(self, session_id: SessionId, message_id: MessageId | None) -> SessionHistory:
        """Read the messages, and the last answer to a prompt: notices of tasks may have led to more."""
        first = await self._host.answer_to(message_id) if message_id is not None else None
        entries = await self._host.messages(session_id, limit=MAX_STEPS)
        answer = first and last_answer(entries, first) if message_id is not None else newest_answer(entries)
        return SessionHistory(entries, answer)

    def _show_missed(self, entries: Sequence[MessageWithParts]) -> None:
        """Show stored messages whose events did not arrive, as when another process ran the session."""
        before = self._last_before
        for entry in entries:
            if before is None or (sort_key(entry.info) >= sort_key(before.info) and entry != before):
                self._show(entry)

    def _show(self, entry: MessageWithParts) -> None:
        session_id = entry.info.session_id
        self._view.show(MessageUpdated(session_id=session_id, info=entry.info))
        for part in entry.parts:
            self._view.show(PartUpdated(session_id=session_id, part=part, time=SystemClock().now()))

    async def _show_if_answered(
        self, session_id: SessionId, root_id: SessionId, message_id: MessageId | None
    ) -> SessionHistory | None:
        """Show the stored answer and return the messages, if the prompt has one or no work is left."""
        if await self._host.at_work(root_id) or (
            message_id is None
            and self._keyboard is not None
            and await self._host.tasks.list_awaited(root_id, asks=True)
        ):
            return None
        history = await self._read_session(session_id, message_id)
        if message_id is None:
            await self._announce_answer(session_id, root_id, history.answer)
        if history.answer is None:
            return None
        self._view.show_answer(history.answer)
        return history

    async def _announce_answer(
        self, session_id: SessionId, root_id: SessionId, answer: MessageWithParts | None
    ) -> None:
        if answer is None:
            hint = f"send it one, as in `asyncagents run --session {session_id} Hello`"
            raise CliError(f"session {session_id} has no prompt yet", hint=hint, code=USAGE)
        state = "waits" if await self._host.statuses(root_id) else "is at rest"
        self._screen.note(f"session {session_id} {state}; this is its last answer:")

    async def _read_result(
        self,
        session_id: SessionId,
        root_id: SessionId,
        message_id: MessageId | None,
        history: SessionHistory,
    ) -> RunResult:
        answer = history.answer
        waits = [wait_of(each) for each in await self._host.tasks.list_awaited(root_id)]
        steps = steps_of_turn(history.entries, answer, message_id)
        result = build_result(session_id, answer, steps, tuple(waits))
        if self._status == "cancelled" or await self._was_cancelled(session_id, answer):
            return replace(result, status="cancelled")
        return result

    async def _was_cancelled(self, session_id: SessionId, answer: MessageWithParts | None) -> bool:
        """Return whether tasks were cancelled after the answer: the session then gets no more notices."""
        answered_at = answer.info.time.completed if answer is not None else None
        ended = [
            parse_time(task.completed_at)
            for task in await self._host.tasks.list(session_id)
            if task.parent_session_id == session_id and task.status == "cancelled" and task.completed_at
        ]
        return answered_at is not None and any(at > answered_at for at in ended)

    async def _make_view(self, session_id: SessionId, message_id: MessageId | None) -> View:
        match self._arguments.format:
            case "json":
                return JsonView()
            case "stream-json":
                tree = {session.id for session in await self._read_tree(session_id)}
                return StreamView(Ids(SystemClock(), SystemRng()), tree)
            case "text":
                tracker = TextTracker(session_id, self._last_before, live=self._was_running, asked=message_id)
                sessions, asked = await self._read_tree(session_id), self._keyboard is not None
                tools = ToolView(self._screen, session_id, sessions, asked=asked)
                tools.mark_known(await self._old_entries(session_id), self._tasks_before)
                return TextView(self._screen, tracker, tools=tools, clock=SystemClock())

    async def _old_entries(self, session_id: SessionId) -> list[MessageWithParts]:
        """Return the messages complete when this run began, without the one another process is writing."""
        before = self._last_before
        if before is None:
            return []
        entries = await self._host.messages(session_id, limit=MAX_STEPS)
        old = [each for each in entries if sort_key(each.info) < sort_key(before.info)]
        return old if self._was_running else [*old, before]

    async def _read_tree(self, session_id: SessionId) -> list[Session]:
        found, ahead = [], [await self._host.session(await self._host.root_of(session_id))]
        while ahead:
            session = ahead.pop()
            found.append(session)
            ahead += await self._host.children(session.id)
        return found

    async def obey_signals(self, signals: Signals, work: asyncio.Task[RunResult]) -> None:
        """On Ctrl-C abort the tree durably and let the job end; other signals only stop this process."""
        await signals.received.wait()
        if signals.number == signal.SIGINT and self._session_id is not None:
            self._status = "cancelled"
            if self._asker is not None:
                self._asker.stop_asking()
            await self._host.abort(await self._host.root_of(self._session_id), seconds=0)
            self._screen.note("cancelling; Ctrl-C again quits at once")  # after the cancel is stored
            done, _ = await asyncio.wait([work], timeout=STOP_SECONDS)
            if done:
                return
            self._screen.print_line("warning: the cancel is stored, but another process has not stopped yet")
        work.cancel()

    def report_interrupted(self, number: int) -> int:
        """Print how the run was interrupted, and return the exit code."""
        if self._session_id is None:
            self._screen.print_line("stopped: `asyncagents sessions` shows whether the prompt was stored")
            return 128 + number
        self.report_result(RunResult(session=self._session_id, tokens=Tokens.zero(), status=self._status))
        return exit_code("cancelled") if self._status == "cancelled" else 128 + number

    def report_result(self, result: RunResult) -> int:
        self._view.end(result)
        print_closing(self._screen, result, self._location)
        if result.status == "accepted" and self._arguments.format == "text":
            self._screen.write_answer(f"{result.session}\n")
        return exit_code(result.status)
