"""The library's main object: sessions, prompts, answers, results and events."""

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from asyncagents.domain.call.call import Call, Reply
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.census import Census
from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.session import NewSession, Rule, Session, project_id
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.feed import Feed
from asyncagents.domain.id import CallId, Ids, MessageId, OwnerId, SessionId
from asyncagents.domain.session_state import Scope
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
from asyncagents.engine.runtime.abort import Aborter
from asyncagents.engine.runtime.actions import SessionActions
from asyncagents.engine.runtime.answers import AnswerWaiters, SubmittedPrompt, submit_prompt
from asyncagents.engine.runtime.approvals import Approvals
from asyncagents.engine.runtime.async_tools import AsyncTools
from asyncagents.engine.runtime.instances import Instances
from asyncagents.engine.runtime.readiness import Readiness
from asyncagents.engine.runtime.rest_check import RestCheck
from asyncagents.engine.runtime.sessions import (
    Conversations,
    SessionFactory,
    SessionOptions,
    complete_session_id,
)
from asyncagents.engine.runtime.tasks import Tasks
from asyncagents.engine.runtime.transfer import Transfer
from asyncagents.engine.runtime.wait import SessionWaiter
from asyncagents.engine.webhook.delivery import Deliveries
from asyncagents.engine.workplace.hooks import PluginReport
from asyncagents.engine.workplace.workplace import Workplace, Workplaces
from asyncagents.errors import StoreError
from asyncagents.store.store import Store
from asyncagents.version import VERSION


class Runtime:
    """The sessions of a data directory, and the agents that work in them. `open_runtime` opens one."""

    readiness: Readiness  # set by the app, which owns its task group

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
        webhook: IncomingWebhook,
        pool: str,
    ) -> None:
        self._store = store
        self._bus = bus
        self._answer_waiters = answers
        self._dispatcher = dispatcher
        self._clock = clock
        self._workplaces = workplaces
        self._pool = pool
        self._input_builder = InputBuilder(ids=ids, clock=clock, defaults=defaults, observer=counters)
        dispatcher.gate = ModelGate(store, defaults)
        self._intake = Intake(
            store=store, workplaces=workplaces, inputs=self._input_builder, ids=ids, gate=dispatcher.gate
        )
        self._aborter = Aborter(store=store, bus=bus, dispatcher=dispatcher, alive=alive)
        self._waiter = SessionWaiter(store=store, bus=bus, clock=clock, dispatcher=dispatcher, alive=alive)
        self._session_factory = SessionFactory(clock=clock, rng=rng, ids=ids, version=VERSION)
        self.defaults, self.counters = defaults, counters
        self.incoming_webhook = webhook
        self._delegate_actions(ids)
        self._build_parts(ids)

    def _delegate_actions(self, ids: Ids) -> None:
        """Offer the actions on a session as methods of the runtime."""
        actions = SessionActions(
            store=self._store,
            bus=self._bus,
            answers=self._answer_waiters,
            inputs=self._input_builder,
            intake=self._intake,
            ids=ids,
        )
        self.command = actions.command
        self.submit_command = actions.submit_command
        self.compact = actions.compact
        self.submit_compaction = actions.submit_compaction
        self.shell = actions.shell
        self.submit_shell = actions.submit_shell
        self.stream = actions.stream
        self.publish_refusal = actions.publish_refusal
        self.publish_idle = actions.publish_idle
        self.background = actions.background
        self.admit_prompt = actions.admit_prompt

    def _build_parts(self, ids: Ids) -> None:
        """Build the parts that clients reach as attributes of the runtime."""
        store, workplaces, clock, webhook = self._store, self._workplaces, self._clock, self.incoming_webhook
        self.conversations = Conversations(
            store, workplaces, self._session_factory, self._intake, check=self.defaults.check, pool=self._pool
        )
        self.reverts = self._dispatcher.reverts
        self.reverts.wait_until_stopped = self._aborter.wait_until_stopped
        self.tasks = Tasks(store=store, intake=self._intake, aborter=self._aborter)
        self.rest_check = RestCheck(store, self.tasks, self._dispatcher.pools, clock)
        self.deliveries = Deliveries(store.deliveries)
        self.approvals = Approvals(store.approval_store)
        self.board = Board(store)
        self.broadcast = Broadcast(bus=self._bus, store=store, ids=ids, clock=clock)
        self.instances = Instances(workplaces, self.broadcast)
        self.transfer = Transfer(store=store, clock=clock, pool=self._pool)
        self.async_tools = AsyncTools(
            store=store, workplaces=workplaces, webhook=webhook, clock=clock, observer=self.counters
        )
        self.mcp_control = workplaces.mcp_control

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
        **options: Unpack[PromptOptions],
    ) -> tuple[Session, MessageId]:
        """Create a session and admit its first prompt, in one transaction; return at once.

        The same key again, in the same directory, returns the same session and message.
        """
        new = SessionOptions(directory=_absolute(directory), title=title, permission=permission, key=key)
        return await self.conversations.begin(new, text, options)

    def serve_tree(self, root_id: SessionId | None = None) -> None:
        """Begin to run one tree of sessions, or all, in a runtime that was opened without serving."""
        self._dispatcher.serve(root=root_id)

    async def prompt(
        self, session_id: SessionId, text: str, *, key: str | None = None, **options: Unpack[PromptOptions]
    ) -> MessageWithParts:
        """Send a prompt and wait until the turn that answers it ends, or waits for something outside.

        `agent` and `model` ("provider/model") apply to the session from here on; `files` are attached.
        """
        return await (await self.submit(session_id, text, key=key, **options)).answer(session_id)

    async def submit(
        self, session_id: SessionId, text: str, *, key: str | None = None, **options: Unpack[PromptOptions]
    ) -> SubmittedPrompt:
        """Admit a prompt and return at once; it is durable whether or not its `answer` is awaited."""
        async with self._intake.lock_key(session_id, key):
            fact = await self._intake.prepare_prompt(session_id, text, key=key, options=options)
            return await submit_prompt(self._store, self._answer_waiters, fact)

    async def send(
        self,
        session_id: SessionId,
        text: str,
        *,
        key: str | None = None,
        wakes: bool = True,
        **options: Unpack[PromptOptions],
    ) -> MessageId:
        """Admit a prompt and return at once; with `wakes=False` the session's next step reads it."""
        return (await self.admit_prompt(session_id, text, key=key, wakes=wakes, **options)).message_id

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

        With `input` the call runs with these arguments. A "reject" with a `message` lets the model act.
        An approval takes "approve" or "reject", with a `message` as a remark. `by`: the person's name.
        """
        valid_reply, began = validate_reply(reply, input, message), self._clock.now()
        call = await self._store.answer(ask_id, valid_reply, by=require_name(by))
        return await report_settled(self.counters, self._store, call, began)

    async def asks(self, session_id: SessionId | None = None) -> tuple[WaitingCall, ...]:
        """List the asks that wait for a person, in the tree of a session or in all, the oldest first."""
        return await self._store.asks(None if session_id is None else await self.root_of(session_id))

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
        """Return a session. Raises `NotFound` if there is none with this id."""
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
        return await self._store.session(await complete_session_id(self._store, start))

    async def root_of(self, session_id: SessionId) -> SessionId:
        """Return the root session of a session's tree; the session itself if it has no parent."""
        return (await self._store.control(session_id)).root_id

    async def children(self, session_id: SessionId) -> tuple[Session, ...]:
        """List the child sessions of a session."""
        return await self._store.children(session_id)

    async def delete_session(self, session_id: SessionId) -> None:
        """Delete a session and all its descendants."""
        await self.conversations.delete(session_id)

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
        """Return one message with its parts."""
        return await self._store.message(message_id)

    async def status(self, session_id: SessionId) -> Status:
        """Return what a session does now."""
        return await self._store.status(session_id)

    async def statuses(self, root_id: SessionId | None = None) -> dict[SessionId, Status]:
        """Return the statuses of all sessions that are not idle, or of those in a tree."""
        return await self._store.statuses(root_id)

    async def todos(self, session_id: SessionId) -> tuple[Todo, ...]:
        """Return the todo list of a session."""
        return await self._store.todos(session_id)

    async def open_calls(self, session_id: SessionId) -> tuple[Call, ...]:
        """List the calls of a session that are not settled."""
        return await self._store.open_calls(session_id)

    def events(self, session_id: SessionId | None = None) -> EventSubscription:
        """Subscribe to events of one session or all. A slow reader may miss states, never the last."""
        return subscribe_events(self._bus, self._store, session_id)

    def follow(
        self, session_id: SessionId, *, after: str | None = None, tree: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        """Follow the events of a session or its tree, from now or from a cursor; yields cursors."""
        return follow_sessions(SessionTree(self._store, session_id, tree=tree), self._bus, after=after)

    async def wait(self, session_id: SessionId) -> Status:
        """Wait until a session is idle, or waits for something outside; return its status."""
        return await self._waiter.wait(session_id)

    async def wait_tree(self, root_id: SessionId) -> dict[SessionId, Status]:
        """Wait until no session of a tree works; return the statuses of those that wait for something."""
        return await self._waiter.wait_tree(root_id)

    async def at_work(self, root_id: SessionId) -> bool:
        """Whether any session of a tree neither rests nor waits for something outside."""
        return await self._waiter.at_work(root_id)

    async def is_running(self, session_id: SessionId) -> bool:
        """Whether a live process, this or another, has a run of the session."""
        return await self._waiter.is_running(session_id)

    async def cursor(self) -> str:
        """Return the current cursor of the change feed."""
        return await self._store.cursor()

    async def feed(self, after: str | None = None) -> Feed:
        """Return changes since a cursor, or the full state, a piece at a time: the last state of each row."""
        return await self._store.feed(after)


def _absolute(directory: str | Path) -> str:
    return str(Path(directory).absolute())
