"""One session that a client has open: prompts, updates of its tree, and its asks."""

import asyncio
from contextlib import suppress

from msgspec.structs import asdict, replace

from asyncagents.acp.asks import AskDesk
from asyncagents.acp.content import TypedInput, read_blocks
from asyncagents.acp.mcp_servers import GivenServers
from asyncagents.acp.options import ChoiceCatalog, SessionChoices
from asyncagents.acp.shape import (
    AgentChunk,
    AnyUpdate,
    Command,
    CommandsUpdate,
    ModeUpdate,
    OptionsUpdate,
    PlanUpdate,
    PromptParams,
    SessionReply,
    SessionUpdateParams,
    SubagentUpdate,
    ThoughtChunk,
    ToolCallBegin,
    ToolCallChange,
    UsageUpdate,
)
from asyncagents.acp.surroundings import Surroundings
from asyncagents.acp.translate import Translator
from asyncagents.client.client import Client, ClientPromptOptions
from asyncagents.client.transport import ServerUnreachable
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import MessageAbortedError, describe_failure
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartUpdated,
    PermissionAsked,
    PermissionReplied,
    PromptAnswered,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionDeleted,
    SessionStatus,
    SessionUpdated,
    TodoUpdated,
    task_event,
)
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.errors import AsyncAgentsError, InvalidInput, NotFound
from asyncagents.remote.json_rpc import INTERNAL_ERROR, RpcError

MOST_SENDS = 5
"""How often a prompt is sent, each time under a newer id, before a refusal counts."""
_STOP_REASONS = {"length": "max_tokens", "content-filter": "refusal"}


class OpenSession:
    """A session tree that is followed for a client until it closes the session or the connection."""

    def __init__(self, session: Session, catalog: ChoiceCatalog, around: Surroundings) -> None:
        self.session = session
        self.options = SessionChoices(catalog, session)
        self._server = around.server
        self._connection = around.connection
        self._ids = around.ids
        self._group = around.group
        windows = {name: model.window for name, model in catalog.models.models.items()}
        self._translator = Translator(session, around.capabilities, windows)
        self._shows_children = around.capabilities.shows_subagents
        self._asks = AskDesk(session.id, around)
        self._prompts: dict[MessageId, asyncio.Future[str | None]] = {}
        """Prompts that were sent and wait for their answer; the result is a stop reason if there is none."""
        self._waiting: set[asyncio.Future[str | None]] = set()
        """All prompts that the client waits for, also those that are not sent yet."""
        self._cancelled: set[asyncio.Future[str | None]] = set()
        """Prompts that the client has cancelled."""
        self._unshown: set[str] = set()
        """Calls that had ended when the client resumed the session: it does not know them."""
        self._following: asyncio.Task[None] | None = None
        self._is_closed = False
        self._cursor: str | None = None

    @property
    def id(self) -> SessionId:
        return self.session.id

    def reply(self, *, new: bool = False) -> SessionReply:
        return SessionReply(
            session_id=self.id if new else None,
            modes=self.options.modes(),
            config_options=self.options.config_options() or None,
        )

    async def begin(self, *, replay: bool) -> None:
        """Begin to follow the tree: with `replay` all messages are sent first, else only what is new."""
        try:
            self._cursor = await self._server.call(lambda client: client.cursor())
            await self._send_state(replay=replay)
        except AsyncAgentsError:
            self._follow_again()  # prompts that were taken over still wait
            raise
        self._follow_again()

    def _follow_again(self) -> None:
        """Follow the tree unless that is under way: it ends when the server cannot be started again."""
        if self._following is None or self._following.done():
            self._following = self._group.create_task(self._follow())

    async def announce(self) -> None:
        """Send the state of the session, its slash commands, and the open asks."""
        status = await self._server.call(lambda client: client.status(self.id))
        await self._handle(SessionStatus(session_id=self.id, status=status))
        directory = self.session.directory
        commands = await self._server.call(lambda client: client.catalog.commands(directory))
        listed = tuple(
            Command(
                name=each.name,
                description=each.description or each.name,
                input={"hint": " ".join(each.hints)} if each.hints else None,
            )
            for each in commands
        )
        if listed:
            await self._send([SessionUpdateParams(self.id, CommandsUpdate(available_commands=listed))])
        for ask_id, session_id in (await self._asks.put_open_asks()).items():
            await self._send(self._translator.begin_ask(ask_id, session_id))

    async def _send_state(self, *, replay: bool) -> None:
        """Send what the session holds: all of it, or without `replay` only what is under way."""
        client = await self._server.client()
        children = (await client.tree(self.id))[1:]
        events: list[Event] = [SessionUpdated(session_id=each.id, info=each) for each in children]
        unfinished: set[MessageId] = set()
        for session in (self.session, *await self._live_children(client, children)):
            try:
                entries, todos = await client.messages(session.id), await client.todos(session.id)
            except NotFound:
                if session.id == self.id:
                    raise
                continue  # the child was deleted meanwhile
            unfinished |= {each.info.id for each in entries if _is_unfinished(each)}
            events += _message_events(entries, session)
            events.append(TodoUpdated(session_id=session.id, todos=todos))
        events += [task_event(each) for each in await client.tasks.list(self.id)]
        updates = [each for event in events for each in self._translator.translate(event)]
        if replay:
            await self._send(_with_last_usages(updates))
        else:
            await self._send([each for each in updates if _is_under_way(each.update, unfinished)])
            left_out = (each.update for each in updates if not _is_under_way(each.update, unfinished))
            self._unshown = {each.tool_call_id for each in left_out if isinstance(each, ToolCallBegin)}

    async def _live_children(self, client: Client, children: tuple[Session, ...]) -> list[Session]:
        """Return the children at work whose updates the client will be sent, if it shows children."""
        if not self._shows_children:
            return []
        statuses = await client.statuses(self.id)
        return [each for each in children if each.id in statuses]

    async def _follow(self) -> None:
        """Forward the events of the tree until the session is deleted; start a lost server again."""
        error: AsyncAgentsError = NotFound("session", self.id)
        try:
            while True:
                try:
                    await self._forward_events()
                    break
                except ServerUnreachable:
                    await self._server.restore()
        except AsyncAgentsError as lost:
            error = lost
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(RpcError(INTERNAL_ERROR, str(error)))

    async def _forward_events(self) -> None:
        client = await self._server.client()
        async with client.events(self.id, tree=True, after=self._cursor) as events:
            for message_id in tuple(self._prompts):  # answered while the server was away
                with suppress(NotFound):  # it is on its way to the server
                    if await client.answer_to(message_id) is not None:
                        self._end_prompt(message_id)
            async for event in events:
                await self._handle(event)

    async def _handle(self, event: Event) -> None:
        updates = self._translator.translate(event)
        if updates:
            await self._send(updates)
        match event:
            case PermissionAsked(request=request) | QuestionAsked(request=request):
                await self._send(self._translator.begin_ask(request.id, request.session_id))
                await self._asks.put_open_asks()
            case PermissionReplied() | QuestionReplied() | QuestionRejected():
                self._asks.withdraw(event.request_id)
                await self._send(self._translator.end_ask(event.request_id))
            case PromptAnswered(message_id=message_id):
                self._end_prompt(message_id)
            case SessionDeleted() | _:
                pass

    def _end_prompt(self, message_id: MessageId) -> None:
        waiting = self._prompts.get(message_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def take_over(self, previous: "OpenSession") -> None:
        """Go on with the prompts of a session that the same client opens once more; the other one stops."""
        self._prompts, self._waiting = previous._prompts, previous._waiting
        self._cancelled = previous._cancelled
        previous.stop()

    async def _send(self, updates: list[SessionUpdateParams]) -> None:
        """Send updates, unless the client has closed the session."""
        for update in updates:
            if self._is_closed:
                return
            await self._connection.notify("session/update", self._begin_unshown_call(update))

    def _begin_unshown_call(self, params: SessionUpdateParams) -> SessionUpdateParams:
        """Show a call that changes after the client was not shown its begin, such as a task that goes on."""
        update = params.update
        if not (isinstance(update, ToolCallChange) and update.tool_call_id in self._unshown):
            return params
        self._unshown.discard(update.tool_call_id)
        return replace(params, update=ToolCallBegin(**asdict(update)))

    async def prompt(self, params: PromptParams, servers: GivenServers) -> str:
        """Send a prompt and return its stop reason when its turn ends or waits for something outside."""
        typed = read_blocks(params.prompt)
        self._follow_again()
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await servers.restore(self.id)
            return await self._run_prompt(typed, waiting)
        except asyncio.CancelledError:
            if self._connection.is_closed:
                raise
            await self.cancel()  # the client cancelled its request
            return "cancelled"
        finally:
            self._forget_prompt(waiting)

    async def _run_prompt(self, typed: TypedInput, waiting: asyncio.Future[str | None]) -> str:
        message_id = await self._send_prompt(typed, waiting)
        if waiting in self._cancelled and not waiting.done():
            await self._abort_turn()  # once more: the first abort may have come before the prompt
        stopped, answer = await waiting, None
        if stopped is None and message_id is not None:
            answer = await self._server.call(lambda client: client.answer_to(message_id))
        return "cancelled" if waiting in self._cancelled else stopped or _stop_reason(answer)

    async def _send_prompt(self, typed: TypedInput, waiting: asyncio.Future[str | None]) -> MessageId | None:
        """Send a prompt under a new id; under another one if a newer message has come before it.

        Return None, and send nothing, if it is cancelled before that.
        """
        chosen = self.options.chosen
        options = ClientPromptOptions(
            agent=chosen.agent, model=chosen.model, variant=chosen.effort or None, files=typed.files
        )
        tries = 0
        while not self._is_over(waiting):
            tries += 1
            options["message_id"] = message_id = self._ids.message()
            self._translator.expect_prompt(message_id)
            self._prompts[message_id] = waiting
            try:
                await self._server.call(lambda client: client.send(self.id, typed.text, **options))
                return message_id
            except InvalidInput:  # of a wrong prompt as well; nothing was stored
                self._prompts.pop(message_id, None)
                if tries == MOST_SENDS:
                    raise
        return None

    def _is_over(self, waiting: asyncio.Future[str | None]) -> bool:
        """Whether a prompt that is not sent needs not be: its session was closed, or it was cancelled."""
        if waiting in self._cancelled and not waiting.done():
            waiting.set_result("cancelled")
        return waiting.done()

    def _forget_prompt(self, waiting: asyncio.Future[str | None]) -> None:
        self._waiting.discard(waiting)
        self._cancelled.discard(waiting)
        for message_id in [key for key, each in self._prompts.items() if each is waiting]:
            del self._prompts[message_id]

    async def cancel(self) -> None:
        """Abort the turn; background tasks go on. Prompts that are open now return as cancelled."""
        opened = self._waiting - self._cancelled
        self._cancelled.update(opened)
        try:
            await self._abort_turn()
        except AsyncAgentsError:
            self._cancelled.difference_update(opened)
            raise

    async def _abort_turn(self) -> None:
        await self._server.call(lambda client: client.abort(self.id, scope="turn"))

    async def choose(self, option: str, value: str | bool) -> None:
        """Change a choice and send the new state of all choices."""
        self.options.choose(option, value)
        updates: list[SessionUpdateParams] = []
        if option == "agent":
            updates.append(SessionUpdateParams(self.id, ModeUpdate(current_mode_id=self.options.agent)))
        options = OptionsUpdate(config_options=self.options.config_options())
        await self._send([*updates, SessionUpdateParams(self.id, options)])

    def stop(self) -> None:
        """Stop following; the session itself goes on."""
        self._is_closed = True
        self._asks.close()
        if self._following is not None:
            self._following.cancel()

    def close(self) -> None:
        """Stop following; prompts that wait return as cancelled."""
        self.stop()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result("cancelled")


def _is_unfinished(entry: MessageWithParts) -> bool:
    return isinstance(entry.info, AssistantMessage) and entry.info.time.completed is None


def _is_under_way(update: AnyUpdate, unfinished: set[MessageId]) -> bool:
    """Whether a client needs an update to understand those that follow: open calls, tasks, open texts."""
    match update:
        case ToolCallBegin(status=status):
            return status in ("pending", "in_progress")
        case AgentChunk(message_id=message_id) | ThoughtChunk(message_id=message_id):
            return message_id in unfinished
        case SubagentUpdate() | PlanUpdate():
            return True
        case _:
            return False


def _with_last_usages(updates: list[SessionUpdateParams]) -> list[SessionUpdateParams]:
    """Leave out the usage of all messages of a session but the last: each replaces the one before."""
    usages = {each.session_id: each for each in updates if isinstance(each.update, UsageUpdate)}
    others = [each for each in updates if not isinstance(each.update, UsageUpdate)]
    return [*others, *usages.values()]


def _message_events(entries: tuple[MessageWithParts, ...], session: Session) -> list[Event]:
    events: list[Event] = []
    for entry in entries:
        events.append(MessageUpdated(session_id=session.id, info=entry.info))
        at = entry.info.time.created
        events += [PartUpdated(session_id=session.id, part=part, time=at) for part in entry.parts]
    return events


def _stop_reason(answer: MessageWithParts | None) -> str:
    """Return how a turn ended. Raises `RpcError` with the error of a failed turn."""
    info = answer.info if answer is not None else None
    if not isinstance(info, AssistantMessage):
        return "end_turn"
    if isinstance(info.error, MessageAbortedError):
        return "cancelled"
    if info.error is not None and info.finish not in _STOP_REASONS:
        raise RpcError(INTERNAL_ERROR, f"the turn failed: {describe_failure(info.error)[1]}")
    return _STOP_REASONS.get(info.finish or "", "end_turn")
