"""The library's main object: sessions, prompts, answers, results and events."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from asyncagents.domain.call.call import Call, Reply
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.census import Census
from asyncagents.domain.control import Scope
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.session import NewSession, Rule, Session, project_id
from asyncagents.domain.conversation.status import Busy, Retry, Status, WaitingAsync
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import Event, PromptAnswered, SessionDeleted, SessionStatus
from asyncagents.domain.feed import Feed
from asyncagents.domain.id import CallId, Ids, MessageId, OwnerId, SessionId
from asyncagents.domain.port import Clock, Rng
from asyncagents.engine.call.incoming_webhook import IncomingWebhook
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.event.global_stream import Broadcast
from asyncagents.engine.event.replay import RestartReplay
from asyncagents.engine.event.session_stream import EventBatch, SessionTree, follow_sessions
from asyncagents.engine.event.subscribe import EventSubscription, subscribe_events
from asyncagents.engine.event.task_stream import Board
from asyncagents.engine.input.content_hash import content_hash
from asyncagents.engine.input.intake import CommandInfo, Intake
from asyncagents.engine.input.message import (
    InputBuilder,
    PromptDefaults,
    PromptOptions,
    require_name,
    validate_reply,
)
from asyncagents.engine.input.model_gate import ModelGate
from asyncagents.engine.metrics import Counters
from asyncagents.engine.observer import report_settled
from asyncagents.engine.runtime.abort import POLL_SECONDS, Aborter
from asyncagents.engine.runtime.actions import SessionActions
from asyncagents.engine.runtime.answers import AnswerWaiters, SubmittedPrompt, submit_prompt
from asyncagents.engine.runtime.approvals import Approvals
from asyncagents.engine.runtime.async_tools import AsyncTools
from asyncagents.engine.runtime.instances import Instances
from asyncagents.engine.runtime.readiness import Readiness
from asyncagents.engine.runtime.sessions import Conversations, SessionFactory
from asyncagents.engine.runtime.tasks import Tasks
from asyncagents.engine.runtime.transfer import Transfer
from asyncagents.engine.webhook.delivery import Deliveries
from asyncagents.engine.workplace.hooks import PluginReport
from asyncagents.engine.workplace.workplace import Workplace, Workplaces
from asyncagents.errors import InvalidInput, NotFound, StoreError
from asyncagents.store.store import Store

VERSION = "0.1.0"


class Runtime(SessionActions):
    """Sessions, and the agents that work in them. Get one from `open_runtime`."""

    readiness: Readiness
    """Set by the app, which owns its task group."""

    def __init__(  # noqa: PLR0913  all that it offers
        self,
        *,
        store: Store,
        bus: Bus,
        answers: AnswerWaiters,
        dispatcher: Dispatcher,
        clock: Clock,
        rng: Rng,
        ids: Ids,
        alive: Callable[[OwnerId], bool],
        defaults: PromptDefaults,
        workplaces: Workplaces,
        counters: Counters,
        reach: IncomingWebhook,
        pool: str,
    ) -> None:
        inputs = InputBuilder(ids=ids, clock=clock, defaults=defaults, watch=counters)
        gate = dispatcher.gate = ModelGate(store, defaults)
        intake = Intake(store=store, workplaces=workplaces, inputs=inputs, ids=ids, gate=gate)
        super().__init__(store=store, bus=bus, answers=answers, inputs=inputs, intake=intake, ids=ids)
        self.counters, self.incoming_webhook, self._pool = counters, reach, pool
        self._workplaces = workplaces
        self._dispatcher, self._is_alive = dispatcher, alive
        self._clock = clock
        self._session_factory = SessionFactory(clock=clock, rng=rng, ids=ids, version=VERSION)
        self.conversations = Conversations(
            store, workplaces, self._session_factory, check=defaults.check, pool=pool
        )
        self._aborter = Aborter(store=store, bus=bus, dispatcher=dispatcher, alive=alive)
        self.reverts = dispatcher.reverts
        self.reverts.wait_until_stopped = self._aborter.wait_until_stopped
        self.tasks = Tasks(store=store, intake=self._intake, ending=self._aborter)
        self.deliveries, self.approvals = Deliveries(store.deliveries), Approvals(store.approval_store)
        self.board = Board(store)
        self.broadcast = Broadcast(bus=bus, store=store, ids=ids, clock=clock)
        self.instances = Instances(workplaces, self.broadcast)
        self.transfer = Transfer(store=store, clock=clock, pool=pool)
        self.async_tools = AsyncTools(
            store=store, workplaces=workplaces, reach=reach, clock=clock, watch=counters
        )
        self.defaults, self.mcp_control = defaults, workplaces.mcp_control

    async def drain(self, seconds: float) -> None:
        """Start no new runs and wait up to `seconds` for turns to end; other processes continue the rest."""
        await self._dispatcher.drain(seconds)

    def close(self) -> None:
        """Fail all waiting callers and end all streams; `open_runtime` does this when its block ends."""
        self.readiness.close()
        self._answer_waiters.close()
        self._bus.close()
        self.board.close()

    @property
    def live(self) -> int:
        """How many sessions this process runs now."""
        return self._dispatcher.live

    @property
    def trouble(self) -> StoreError | None:
        """The error that keeps runs from writing to the store; they are retried."""
        return self._dispatcher.trouble

    @property
    def replay(self) -> RestartReplay:
        """Replay for streams that begin soon after the start."""
        return self._dispatcher.replay

    @property
    def serves(self) -> bool:
        """Whether this process runs sessions."""
        return self._dispatcher.serves

    async def census(self) -> Census:
        """Count the rows of each kind, up to a limit, for metrics."""
        return await self._store.census.take(self._pool)

    async def create_session(
        self,
        *,
        title: str | None = None,
        parent_id: SessionId | None = None,
        directory: str | Path = ".",
        key: str | None = None,
        permission: Sequence[Rule] = (),
    ) -> Session:
        """Create a session; the same key again returns the same one. `permission` overlays agents' rules."""
        where = _absolute(directory)
        info = self._session_factory(title, parent_id, where, permission)
        given = content_hash(title=title, parent_id=parent_id, directory=where, permission=tuple(permission))
        return await self._store.create_session(NewSession(info=info, pool=self._pool, key=key, hash=given))

    async def begin(
        self,
        text: str,
        *,
        title: str | None = None,
        directory: str | Path = ".",
        key: str | None = None,
        permission: Sequence[Rule] = (),
        **to: Unpack[PromptOptions],
    ) -> tuple[Session, MessageId]:
        """Create a session and admit its first prompt, in one transaction; return at once.

        The same key again, in the same directory, returns the same session and message.
        """
        info = self._session_factory(title, None, _absolute(directory), permission)
        session_key = f"begin:{info.project_id}:{key}" if key is not None else None
        given = content_hash(title=title, permission=tuple(permission))
        new = NewSession(info=info, pool=self._pool, key=session_key, hash=given)
        async with self._intake.lock_key(info.project_id, key):
            fact = await self._intake.prepare_first_prompt(new, text, key=key, to=to)
            session, admitted = await self._store.begin_session(new, fact)
        return session, admitted.message_id

    def serve_tree(self, root_id: SessionId | None = None) -> None:
        """Begin to run one tree of sessions, or all, in a runtime that was opened without serving."""
        self._dispatcher.serve(root=root_id)

    async def prompt(
        self, session_id: SessionId, text: str, *, key: str | None = None, **to: Unpack[PromptOptions]
    ) -> MessageWithParts:
        """Send a prompt and wait until the turn that answers it ends, or waits for something outside.

        `agent` and `model` ("provider/model") apply to the session from here on; `files` are attached.
        """
        return await (await self.submit(session_id, text, key=key, **to)).answer(session_id)

    async def submit(
        self, session_id: SessionId, text: str, *, key: str | None = None, **to: Unpack[PromptOptions]
    ) -> SubmittedPrompt:
        """Admit a prompt and return at once; it is durable whether or not its `answer` is awaited."""
        async with self._intake.lock_key(session_id, key):
            fact = await self._intake.prepare_prompt(session_id, text, key=key, to=to)
            return await submit_prompt(self._store, self._answer_waiters, fact)

    async def send(
        self,
        session_id: SessionId,
        text: str,
        *,
        key: str | None = None,
        wakes: bool = True,
        **to: Unpack[PromptOptions],
    ) -> MessageId:
        """Admit a prompt and return at once; with `wakes=False` the session's next step reads it."""
        async with self._intake.lock_key(session_id, key):
            fact = await self._intake.prepare_prompt(session_id, text, key=key, to=to, wakes=wakes)
            return (await self._store.admit(fact)).message_id

    async def commands(self, directory: str | Path = ".") -> tuple[CommandInfo, ...]:
        """List the slash commands of a directory."""
        return await self._intake.list_commands(_absolute(directory))

    async def answer(
        self,
        ask_id: str,
        reply: str | Reply | Sequence[Sequence[str]],
        *,
        input: dict[str, Any] | None = None,
        message: str = "",
        by: str = "",
    ) -> Call:
        """Answer a permission with "once", "always" or "reject", a question with a list for each question.

        With `input` the call runs with these arguments; a "reject" with a `message` lets the model go on. An
        approval takes "approve" or "reject", with a `message` as a remark. `by`: the person's name.
        """
        said, began = validate_reply(reply, input, message), self._clock.now()
        call = await self._store.answer(ask_id, said, by=require_name(by))
        return await report_settled(self.counters, self._store, call, began)

    async def asks(self, session_id: SessionId | None = None) -> tuple[WaitingCall, ...]:
        """List the asks that wait for a person, in the tree of a session or in all, the oldest first."""
        root_id = None if session_id is None else await self.root_of(session_id)
        return await self._store.asks(root_id)

    async def workplace(self, directory: str | Path = ".") -> Workplace:
        """Return the workplace of a directory: its tools, agents and rules."""
        return await self._workplaces.at(_absolute(directory))

    async def plugins(self, directory: str | Path = ".") -> tuple[PluginReport, ...]:
        """List the plugins of a directory, with statistics of their hooks."""
        return (await self.workplace(directory)).hooks.reports()

    async def complete(self, call_id: CallId, output: str, *, title: str = "") -> Call:
        """Settle an open call with its result, as `async_tools.submit_result` does."""
        await self.async_tools.submit_result(call_id, output, title=title)
        return await self._store.call(call_id)

    async def fail(self, call_id: CallId, error: str) -> Call:
        """Settle an open call with an error."""
        await self.async_tools.submit_error(call_id, error)
        return await self._store.call(call_id)

    async def abort(
        self, session_id: SessionId, *, seconds: float = 5.0, scope: Scope = "tree", key: str | None = None
    ) -> bool:
        """Abort a session and its descendants.

        Returns False if a run was still stopping after `seconds`; the cancel itself is committed.
        `scope="turn"` spares tasks in the background. The same key again aborts nothing that came since.
        """
        return await self._aborter.abort(session_id, seconds=seconds, scope=scope, key=key)

    async def session(self, session_id: SessionId) -> Session:
        return await self._store.session(session_id)

    async def sessions(self, directory: str | Path = ".", *, limit: int = 100) -> tuple[Session, ...]:
        """List the sessions of a directory, the newest first."""
        return await self._store.sessions(project_id(_absolute(directory)), limit=limit)

    async def roots(self, directory: str | Path | None = ".", *, limit: int = 100) -> tuple[Session, ...]:
        """List sessions without a parent, of one directory or (None) of all, the newest first."""
        where = None if directory is None else project_id(_absolute(directory))
        return await self._store.roots(where, limit=limit)

    async def find_session(self, start: str) -> Session:
        """Find a session by its id or a unique beginning of it."""
        start = start if start.startswith("ses_") else f"ses_{start}"
        found = await self._store.session_ids_with_prefix(start)
        if not found:
            raise NotFound("session", start)
        if len(found) > 1 and start not in found:
            raise InvalidInput(f"several sessions begin with {start!r}: write more of the id")
        return await self._store.session(found[0])

    async def root_of(self, session_id: SessionId) -> SessionId:
        """Return the root session of a session's tree; the session itself if it has no parent."""
        return (await self._store.control(session_id)).root_id

    async def children(self, session_id: SessionId) -> tuple[Session, ...]:
        return await self._store.children(session_id)

    async def delete_session(self, session_id: SessionId) -> None:
        """Delete a session and all its descendants."""
        await self._store.delete_session(session_id)

    async def messages(
        self, session_id: SessionId, *, limit: int = 1_000_000
    ) -> tuple[MessageWithParts, ...]:
        """Return the newest `limit` messages, the oldest first."""
        return await self._store.messages(session_id, limit=limit)

    async def answer_to(self, message_id: MessageId) -> MessageWithParts | None:
        """Return the message that answered a prompt; None: there is none yet."""
        answer_id = (await self._store.input(message_id)).answer_id
        return None if answer_id is None else await self._store.message(answer_id)

    async def message(self, message_id: MessageId) -> MessageWithParts:
        return await self._store.message(message_id)

    async def status(self, session_id: SessionId) -> Status:
        return await self._store.status(session_id)

    async def statuses(self, root_id: SessionId | None = None) -> dict[SessionId, Status]:
        """Return the statuses of all sessions that are not idle, or of those in a tree."""
        return await self._store.statuses(root_id)

    async def todos(self, session_id: SessionId) -> tuple[Todo, ...]:
        return await self._store.todos(session_id)

    async def open_calls(self, session_id: SessionId) -> tuple[Call, ...]:
        return await self._store.open_calls(session_id)

    def events(self, session_id: SessionId | None = None) -> EventSubscription:
        """Subscribe to events of one session or all. A slow reader may miss states, never the last."""
        return subscribe_events(self._bus, self._store, session_id)

    def follow(
        self, session_id: SessionId, *, after: str | None = None, tree: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        """Follow the events of a session or its tree, from now or from a cursor; yields cursors."""
        return follow_sessions(SessionTree(self._store, session_id, tree=tree), self._bus, after=after)

    async def stream(
        self, session_id: SessionId, text: str, *, key: str | None = None, **to: Unpack[PromptOptions]
    ) -> AsyncGenerator[Event, None]:
        """Send a prompt and yield the session's events until it is answered, or the session is deleted."""
        async with self.events(session_id) as events:
            async with self._intake.lock_key(session_id, key):
                admitted = await self._store.admit(
                    await self._intake.prepare_prompt(session_id, text, key=key, to=to)
                )
            message_id = admitted.message_id
            if not admitted.new and (await self._store.input(message_id)).answer_id is not None:
                return
            async for event in events:
                yield event
                answered = isinstance(event, PromptAnswered) and event.message_id == message_id
                if answered or isinstance(event, SessionDeleted):
                    return

    async def wait(self, session_id: SessionId) -> Status:
        """Wait until a session is idle, or waits for something outside; return its status."""
        async with self.events(session_id) as events:
            status = await self._store.status(session_id)
            while isinstance(status, Busy | Retry) or self._is_expiring(status):
                event = await anext(events)
                if isinstance(event, SessionDeleted):
                    raise NotFound("session", session_id)
                status = event.status if isinstance(event, SessionStatus) else status
        return status

    def _is_expiring(self, status: Status) -> bool:
        """Whether the wait is overdue and this process's sweep is about to expire it."""
        if not isinstance(status, WaitingAsync) or status.timeout is None:
            return False
        return status.timeout <= self._clock.now() and self._dispatcher.serves

    async def wait_tree(self, root_id: SessionId) -> dict[SessionId, Status]:
        """Wait until no session of a tree works; return the statuses of those that wait for something."""
        while await self._store.working_sessions(root_id):  # noqa: ASYNC110  no event reports the park on an ask
            await asyncio.sleep(POLL_SECONDS)
        return await self._store.statuses(root_id)

    async def at_work(self, root_id: SessionId) -> bool:
        """Whether any session of a tree neither rests nor waits for something outside."""
        return bool(await self._store.working_sessions(root_id))

    async def is_running(self, session_id: SessionId) -> bool:
        """Whether a live process, this or another, has a run of the session."""
        control = await self._store.control(session_id)
        return control.state == "running" and self._is_alive(control.owner or OwnerId(""))

    async def cursor(self) -> str:
        """Return the current cursor of the change feed."""
        return await self._store.cursor()

    async def feed(self, after: str | None = None) -> Feed:
        """Return changes since a cursor, or the full state, a piece at a time: the last state of each row."""
        return await self._store.feed(after)


def _absolute(directory: str | Path) -> str:
    return str(Path(directory).absolute())
