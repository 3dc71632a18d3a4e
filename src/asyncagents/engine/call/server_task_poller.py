"""Poll MCP servers for the tasks that work for calls, when a row is due, where the session is served."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from asyncagents.domain.call.call import Call
from asyncagents.domain.call.elicitation import form_responses
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.call.server_task_state import ServerTaskState, ServerTaskUnreachable
from asyncagents.domain.clock import Clock
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.observer import NOOP_OBSERVER, Observer, report_settled
from asyncagents.engine.workplace.mcp import McpResources
from asyncagents.engine.workplace.session_workplace import polled_place
from asyncagents.engine.workplace.workplace import Workplaces
from asyncagents.errors import AsyncAgentsError, StoreError, ToolError
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit

MAX_CONCURRENT = 16
SWEEP_MS = 30_000
RETRY_MS = 1_000
NO_SERVERS = "there is no MCP server in the directory of the session"

_log = logging.getLogger(__name__)


class ServerTaskPoller:
    """Claims a due call's row, asks or tells its server, and records what that learned.

    Nothing is kept here between two polls: the next time is in the row.
    """

    def __init__(  # noqa: PLR0913  all that polling needs
        self,
        *,
        store: Store,
        workplaces: Workplaces,
        serving: Callable[[], Awaitable[SessionId | None]],
        pools: tuple[str, ...],
        clock: Clock,
        group: asyncio.TaskGroup,
        count_poll: Callable[[str], None] = lambda outcome: None,
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        """`serving` waits until this process serves and returns the tree that it serves, or (None) all."""
        self._store = store
        self._workplaces = workplaces
        self._wait_until_serving = serving
        self._pools = pools
        self._clock = clock
        self._group = group
        self._count_poll = count_poll
        self._observer = observer
        self._polling: dict[CallId, asyncio.Task[None]] = {}
        self._look_wanted = asyncio.Event()
        self._next_look = -math.inf
        """When to look for due rows again; -inf until this process serves."""

    def on_commit(self, commit: Commit) -> None:
        if commit.due and min(commit.due) < self._next_look:
            self._look_wanted.set()

    async def poll_forever(self) -> None:
        """Poll at the start, when a row is due, when a poll ends, and look every half minute."""
        root_id = await self._wait_until_serving()
        while True:
            self._look_wanted.clear()
            self._next_look = math.inf  # a row that becomes due while we look starts another look
            try:
                pause = await self._poll_due(root_id)
            except StoreError:
                _log.exception("action=find_due_polls the store failed; retrying")
                pause = RETRY_MS
            except Exception as error:  # noqa: BLE001  the edge of the poller
                _log.exception("action=find_due_polls failed; retrying")
                self._observer.report_fault("sweep", error)
                pause = RETRY_MS
            self._next_look = self._clock.now() + pause
            try:
                async with asyncio.timeout(pause / 1000):
                    await self._look_wanted.wait()
            except TimeoutError:
                pass

    async def _poll_due(self, root_id: SessionId | None) -> int:
        """Start the due polls that fit; return how long to wait for the next look, in ms."""
        due = await self._store.polls.due(self._pools, root_id, MAX_CONCURRENT + len(self._polling))
        for call_id in due.now:
            if len(self._polling) < MAX_CONCURRENT and call_id not in self._polling:
                self._polling[call_id] = self._group.create_task(self._poll(call_id))
        if due.next_at is None:
            return SWEEP_MS
        return max(1, min(SWEEP_MS, due.next_at - self._clock.now()))

    async def _poll(self, call_id: CallId) -> None:
        try:
            call = await self._store.polls.claim(call_id)
            if call is not None and call.server_task is not None:
                await self._serve_call(call, call.server_task)
        except Exception as error:  # noqa: BLE001  the edge of a poll; others go on, its row is due again
            _log.exception("call=%s action=poll failed; the server is asked again", call_id)
            self._observer.report_fault("sweep", error)
        finally:
            self._polling.pop(call_id, None)
            self._look_wanted.set()

    async def _serve_call(self, call: Call, task: ServerTask) -> None:
        """Tell the server what it must know of a call, or else ask how the task goes on."""
        if call.is_settled:
            await self._cancel(call, task)
            return
        reply = call.reply_to_send
        try:
            servers = await self._servers_of(call)
            if reply is not None:
                responses = form_responses(task.requests, reply)
                await servers.answer_task(task.server, task.id, responses)
                await self._store.polls.note_answered(call.id, tuple(responses))
                self._count_poll("answered")
                return
            seen: ServerTaskState = await servers.task_state(task.server, task.id)
        except AsyncAgentsError as error:
            if isinstance(error, StoreError):
                raise
            self._log_unreachable(call, task, error)
            seen = ServerTaskUnreachable(str(error))
        self._count_poll(_outcome_name(seen))
        began = self._clock.now()
        settled = await self._store.polls.note_state(call.id, seen)
        if settled is not None:
            await report_settled(self._observer, self._store, settled, began)

    async def _cancel(self, call: Call, task: ServerTask) -> None:
        try:
            await (await self._servers_of(call)).cancel_task(task.server, task.id)
            reached = True
        except AsyncAgentsError as error:
            if isinstance(error, StoreError):
                raise
            self._log_unreachable(call, task, error)
            reached = False
        self._count_poll("cancelled" if reached else "unreachable")
        if await self._store.polls.note_cancelled(call.id, reached=reached) and not reached:
            _log.warning(
                "session=%s call=%s action=cancel_server_task mcp_server=%s given up: it may still work",
                *(call.session_id, call.id, task.server),
            )

    async def _servers_of(self, call: Call) -> McpResources:
        session = await self._store.session(call.session_id)
        place = await polled_place(self._store, self._workplaces, session)
        if place.mcp_resources is None:
            raise ToolError(NO_SERVERS)
        return place.mcp_resources

    def _log_unreachable(self, call: Call, task: ServerTask, error: Exception) -> None:
        level = logging.DEBUG if task.failures or task.cancels else logging.WARNING
        _log.log(
            level,
            "session=%s call=%s action=poll mcp_server=%s unreachable, asked again: %s",
            *(call.session_id, call.id, task.server, str(error).partition("\n")[0]),
        )

    async def stop(self) -> None:
        """Cancel polls under way: their rows are due again."""
        tasks = list(self._polling.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _outcome_name(seen: ServerTaskState) -> str:
    return type(seen).__name__.removeprefix("ServerTask").lower()
