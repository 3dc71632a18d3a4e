"""Record the calls of an external agent in one step, and answer its requests for permissions."""

import asyncio

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    Call,
    CallState,
    Completed,
    Failed,
    Open,
    Running,
    Settled,
)
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import CallId, Ids
from asyncagents.domain.session_state import Claim
from asyncagents.engine.external.agent import AskVerdict, ExternalAsk, ExternalCallUpdate
from asyncagents.engine.run import Run
from asyncagents.engine.tool import ToolContext
from asyncagents.engine.workplace.permission import Permissions, PlannedCall
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.store.store import Store

UPDATE_MS = 1_000
"""How often a running call is written at most."""
RECHECK_MS = 5_000
"""How often open asks are read without a wake: another process may have answered."""
NO_OUTPUT = "(no output)"


class ObservedStep(Struct, frozen=True, kw_only=True):
    """The step whose calls are recorded."""

    run: Run
    claim: Claim
    message: AssistantMessage
    turn: int
    session: Session
    workplace: Workplace


class ObservedCalls:
    """Each change of a call's state is one transaction, never each chunk."""

    def __init__(
        self,
        step: ObservedStep,
        *,
        store: Store,
        permissions: Permissions,
        clock: Clock,
        ids: Ids,
        group: asyncio.TaskGroup,
    ) -> None:
        self._step = step
        self._store = store
        self._permissions = permissions
        self._clock = clock
        self._ids = ids
        self._group = group
        self._calls: dict[str, Call] = {}
        self._written: dict[str, int] = {}
        self._began: set[str] = set()
        self._open: dict[CallId, ExternalAsk] = {}
        self._later: list[ExternalAsk] = []
        """Asks of calls that have an open one: each is judged when the one before has its answer."""
        self._watching: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def observe(self, update: ExternalCallUpdate) -> None:
        """Record a call as its agent shows it; one that goes on running at most about once a second."""
        known = self._calls.get(update.key)
        if known is not None and known.is_settled:
            return
        call = self._merge(update)
        over = isinstance(call.state, Settled)
        recent = self._clock.now() - self._written.get(update.key, -UPDATE_MS) < UPDATE_MS
        began = update.status == "running" and update.key not in self._began
        self._calls[update.key] = call
        if over or began or not recent or known is None:
            await self._write(update, call)

    async def _write(self, update: ExternalCallUpdate, call: Call) -> None:
        self._written[update.key] = self._clock.now()
        if update.status == "running":
            self._began.add(update.key)
        await self._store.external.observe(self._step.claim, (call,))

    def _merge(self, update: ExternalCallUpdate) -> Call:
        known = self._calls.get(update.key)
        state = self._state(update)
        if known is not None:
            return replace(known, input=update.input, state=state)
        message = self._step.message
        return Call(
            id=self._ids.call(),
            session_id=message.session_id,
            message_id=message.id,
            part_id=self._ids.part(),
            call_id=update.key,
            tool=update.tool,
            input=update.input,
            turn=self._step.turn,
            created=self._clock.now(),
            agent=message.agent,
            observed=True,
            effect="once",
            state=state,
        )

    def _state(self, update: ExternalCallUpdate) -> CallState:
        now = self._clock.now()
        match update.status:
            case "completed":
                done = Completed(update.output or NO_OUTPUT, update.title, update.metadata)
                return Settled(done, now)
            case "failed":
                return Settled(Failed(update.output or update.title or NO_OUTPUT, update.metadata), now)
            case "pending" | "running":
                return Running(self._step.claim.fence, title=update.title, metadata=update.metadata)

    async def write_todos(self, todos: tuple[Todo, ...]) -> None:
        fact = WriteTodos(self._step.session.id, todos)
        await self._store.external.observe(self._step.claim, (), (fact,))

    async def ask(self, ask: ExternalAsk) -> None:
        """Decide a request by the rules, or open a durable ask: a person's answer is sent when it comes."""
        known, call = self._calls.get(ask.call.key), self._merge(ask.call)
        if call.is_settled or (known is not None and known.is_settled):
            ask.respond("reject")
        elif call.id in self._open:
            self._later.append(ask)
        else:
            await self._judge(call, ask)

    async def _judge(self, call: Call, ask: ExternalAsk) -> None:
        """Open the next ask of a call that has no answer; without one, respond to its agent.

        The call is recorded before it is allowed, so that one that is cut off is known.
        """
        verdict = await self._permissions.judge_observed(
            PlannedCall(call, self._context(call), ask.asks), self._step.workplace, self._step.session
        )
        if isinstance(verdict, Open):
            call = await self._store.external.ask(self._step.claim, call, replace(verdict, blocks=False))
            self._calls[ask.call.key] = call
            await self._settle(call, ask)
            return
        self._calls[ask.call.key] = call
        await self._write(ask.call, call)
        await self._respond(call, ask, "allow" if verdict is None else "reject")

    def _context(self, call: Call) -> ToolContext:
        session = self._step.session
        return ToolContext(
            session_id=call.session_id,
            message_id=call.message_id,
            call_id=call.id,
            agent=call.agent,
            directory=session.directory,
            worktree=self._step.workplace.worktree or session.directory,
        )

    async def _settle(self, call: Call, ask: ExternalAsk) -> None:
        """Go on with a call whose ask has an answer; watch the others."""
        if call.open is not None:
            self._open[call.id] = ask
            if self._watching is None:
                self._watching = self._group.create_task(self._watch())
            return
        self._open.pop(call.id, None)
        if isinstance(call.state, Running):
            await self._judge(call, ask)
        else:
            await self._respond(call, ask, "reject")

    async def _respond(self, call: Call, ask: ExternalAsk, verdict: AskVerdict) -> None:
        """Respond to an agent, after the answer of a person is marked as used."""
        if call.reply is not None:
            self._calls[ask.call.key] = await self._store.external.take_answer(self._step.claim, call.id)
        ask.respond(verdict)
        later = [each for each in self._later if each.call.key == ask.call.key]
        self._later = [each for each in self._later if each not in later]
        for each in later:
            await self.ask(each)

    async def _watch(self) -> None:
        try:
            while self._open:
                await self._step.run.wait(RECHECK_MS)
                for call_id, ask in list(self._open.items()):
                    call = await self._store.call(call_id)
                    self._calls[ask.call.key] = call
                    await self._settle(call, ask)
        except Exception as error:  # noqa: BLE001  raised again by `close`; the stream is interrupted
            self._failure = error
            self._step.run.interrupt()
        finally:
            self._watching = None

    async def close(self) -> None:
        """Cancel what is still asked; raise the failure of a read."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        for ask in (*self._open.values(), *self._later):
            ask.respond("cancel")
        if self._failure is not None:
            raise self._failure
