"""Calls: planned, permitted, started after their intent is written down, and settled or opened."""

import asyncio
import hashlib
import logging

import msgspec

from asyncagents.domain.ask import PermissionRequest, QuestionRequest, ToolRef
from asyncagents.domain.call import (
    IN_DOUBT,
    TIMED_OUT,
    WAIT_OVER,
    Call,
    Completed,
    Failed,
    Open,
    Requested,
    Result,
    Running,
)
from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.id import Ids
from asyncagents.domain.port import Clock
from asyncagents.domain.session import Session
from asyncagents.domain.shape import encode
from asyncagents.domain.text import whole
from asyncagents.engine.run import Run, told_to_stop
from asyncagents.engine.tool import AnyTool, Ask, Outcome, Pending, Policy, Together, ToolContext
from asyncagents.errors import ToolError
from asyncagents.store.body import body
from asyncagents.store.store import Store
from asyncagents.store.verb.step import Move

_log = logging.getLogger(__name__)


class Calls:
    def __init__(
        self,
        *,
        store: Store,
        tools: tuple[AnyTool, ...],
        policy: Policy,
        clock: Clock,
        ids: Ids,
        group: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._tools: dict[str, AnyTool] = {tool.name: tool for tool in tools}
        self._policy = policy
        self._clock = clock
        self._ids = ids
        self._group = group

    async def start(self, run: Run, lease: Lease, snapshot: Snapshot) -> Snapshot:
        """Plan what was requested; write down what starts, asks or fails; then start it."""
        session = await self._store.session(lease.session_id)
        try:
            async with run.interruptible():
                moves = await self._moves(session, lease, snapshot.requested)
        except TimeoutError:
            return await self._store.snapshot(lease)
        after = await self._store.advance(lease, moves)
        moved = {move.call_id for move in moves}
        for call in after.executing:
            if call.id in moved:
                context = _context(call, session.agent or "", session.directory)
                run.tasks[call.id] = self._group.create_task(self._execute(run, lease, call, context))
        return after

    async def _moves(self, session: Session, lease: Lease, calls: tuple[Call, ...]) -> tuple[Move, ...]:
        moves: list[Move] = []
        for call in calls:
            context = _context(call, session.agent or "", session.directory)
            verdict = await self._plan(call, context, lease)
            if isinstance(verdict, Failed):
                await self._store.finish_call(lease, call.id, verdict)
            else:
                moves.append(Move(call.id, verdict))
        return tuple(moves)

    async def _plan(self, call: Call, context: ToolContext, lease: Lease) -> Running | Open | Failed:
        """What becomes of a requested call: it runs, it asks first, or it cannot."""
        tool = self._tools.get(call.tool)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return Failed(f"There is no tool named {call.tool!r}. Available: {known}.")
        try:
            args = msgspec.convert(call.input, tool.args)
            async with asyncio.timeout(tool.timeout):
                asks = await tool.plan(args, context) if tool.plan else ()
        except msgspec.ValidationError as error:
            return Failed(f"The arguments do not fit {call.tool}: {error}.")
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  its failure is a value
            return _failed(call, error)
        return self._permit(call, context, asks) or Running(lease.fence)

    def _permit(self, call: Call, context: ToolContext, asks: tuple[Ask, ...]) -> Open | Failed | None:
        for ask in asks:
            match self._policy(ask, context):
                case "deny":
                    return Failed(f"Not allowed here: {ask.permission} {', '.join(ask.patterns)}.")
                case "ask" if (ask_hash := _hash(call, ask)) not in call.granted:
                    return self._ask(call, ask, ask_hash)
                case _:
                    pass
        return None

    def _ask(self, call: Call, ask: Ask, ask_hash: str) -> Open:
        request = PermissionRequest(
            id=self._ids.permission(),
            session_id=call.session_id,
            permission=ask.permission,
            patterns=ask.patterns,
            metadata=ask.metadata,
            always=ask.always,
            tool=ToolRef(message_id=call.message_id, call_id=call.call_id),
        )
        return Open(kind="ask", since=self._clock.now(), ask=request, ask_hash=ask_hash)

    async def _execute(self, run: Run, lease: Lease, call: Call, context: ToolContext) -> None:
        """Run one tool. A cancel leaves the call as it is: the turn's rest settles it."""
        try:
            outcome = await self._outcome(call, context)
            match outcome:
                case Open():
                    await self._store.advance(lease, (Move(call.id, outcome),))
                case Together(result, facts):
                    await self._store.finish_call(lease, call.id, result, facts)
                case Completed() | Failed():
                    await self._store.finish_call(lease, call.id, outcome)
        except Exception as error:  # noqa: BLE001  the edge of a call: the run drops it, the runtime goes on
            run.fail(error)
        finally:
            run.tasks.pop(call.id, None)
            run.poke()

    async def _outcome(self, call: Call, context: ToolContext) -> Completed | Failed | Together | Open:
        tool = self._tools[call.tool]
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                outcome = _checked(await tool.run(msgspec.convert(call.input, tool.args), context))
            return self._opened(call, outcome) if isinstance(outcome, Pending) else outcome
        except TimeoutError as error:
            if limit.expired():
                return Failed(f"{TIMED_OUT} after {tool.timeout:g} s.")
            return _failed(call, error)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  its failure is a value
            return _failed(call, error)

    def _opened(self, call: Call, pending: Pending) -> Open:
        now = self._clock.now()
        question = None
        if pending.questions:
            question = QuestionRequest(
                id=self._ids.question(),
                session_id=call.session_id,
                questions=pending.questions,
                tool=ToolRef(message_id=call.message_id, call_id=call.call_id),
            )
        default: Result = Completed(WAIT_OVER) if pending.kind == "wait" else Failed(TIMED_OUT)
        return Open(
            kind=pending.kind,
            since=now,
            due=None if pending.seconds is None else now + int(pending.seconds * 1000),
            on_due=pending.on_due or default,
            note=pending.note,
            question=question,
        )

    async def recover(self, run: Run, lease: Lease, abandoned: tuple[Call, ...]) -> Snapshot:
        """Their process died while they ran: what may run again does, the rest is in doubt."""
        again = [Move(call.id, Requested()) for call in abandoned if call.effect != "once"]
        try:
            async with run.interruptible():
                for call in abandoned:
                    if call.effect == "once":
                        await self._store.finish_call(lease, call.id, await self._reconciled(call))
        except TimeoutError:
            return await self._store.snapshot(lease)
        return await self._store.advance(lease, tuple(again))

    async def _reconciled(self, call: Call) -> Result:
        doubt = Failed(IN_DOUBT, metadata={"inDoubt": True})
        tool = self._tools.get(call.tool)
        if tool is None or tool.reconcile is None:
            return doubt
        session = await self._store.session(call.session_id)
        context = _context(call, session.agent or "", session.directory)
        try:
            async with asyncio.timeout(tool.timeout):
                known = await tool.reconcile(msgspec.convert(call.input, tool.args), context)
            return _results.decode(body(known)) if known is not None else doubt
        except (Exception, asyncio.CancelledError):
            if told_to_stop():
                raise
            _log.exception("reconcile of %s failed", call.tool)
            return doubt


def _context(call: Call, agent: str, directory: str) -> ToolContext:
    return ToolContext(
        session_id=call.session_id,
        message_id=call.message_id,
        call_id=call.id,
        agent=agent,
        directory=directory,
    )


def _hash(call: Call, ask: Ask) -> str:
    """An answer is for these arguments and this plan; if either changes, it is asked again."""
    return hashlib.sha256(encode((call.tool, call.input, ask))).hexdigest()


_results = msgspec.json.Decoder(Completed | Failed)
_pendings = msgspec.json.Decoder(Pending)


def _checked(outcome: object) -> Outcome:
    """What cannot be kept, or not be read again, is the tool's failure, not the run's."""
    match outcome:
        case Completed() | Failed():
            _results.decode(body(outcome))
        case Together(result):
            _results.decode(body(result))
        case Pending(kind=kind, questions=questions):
            _pendings.decode(body(outcome))
            if (kind == "question") != bool(questions) or kind == "ask":
                raise TypeError("a tool that waits says kind async or wait, or question with its questions")
        case _:
            raise TypeError(f"a tool returns Completed, Failed or Pending, not {str(outcome)[:80]!r}")
    return outcome


def _failed(call: Call, error: BaseException) -> Failed:
    """A failure as the model reads it; a cancel from outside is none."""
    if isinstance(error, asyncio.CancelledError) and told_to_stop():
        raise error
    if isinstance(error, ToolError):
        return Failed(whole(str(error)))
    _log.warning("tool %s failed", call.tool, exc_info=error)
    return Failed(whole(f"{type(error).__name__}: {error}"))
