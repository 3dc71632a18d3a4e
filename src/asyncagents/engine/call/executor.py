"""Execute calls: plan, permit, start after the intent is stored, then settle or open them."""

import asyncio
import logging

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    BY_HAND,
    EDITED,
    IN_DOUBT,
    TIMED_OUT,
    Call,
    Completed,
    Failed,
    Open,
    Requested,
    Result,
    Running,
)
from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import Ids
from asyncagents.domain.port import Clock
from asyncagents.domain.text import shortened, whole
from asyncagents.engine.call.file_changes import Trail
from asyncagents.engine.call.incoming_webhook import Reach
from asyncagents.engine.call.pending import Lastings, secrets
from asyncagents.engine.call.progress import Report
from asyncagents.engine.call.result_check import asked, checked, known_result
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.model_input import repeated
from asyncagents.engine.observer import UNWATCHED, Watch
from asyncagents.engine.run import Run, told_to_stop
from asyncagents.engine.tool import (
    AnyTool,
    Ended,
    Opened,
    Outcome,
    Pending,
    Together,
    ToolContext,
)
from asyncagents.engine.workplace.hooks import Hooks
from asyncagents.engine.workplace.permission import Permissions, Standing, Wish
from asyncagents.engine.workplace.workplace import Unusable, Workplace, Workplaces, enter
from asyncagents.errors import InvalidInput, ToolError
from asyncagents.store.store import Store
from asyncagents.store.verb.prepare import Prepared
from asyncagents.store.verb.step import Move

PLAN_SECONDS = 60
"""Limit of one plan; the calls of a step start when all of them are planned."""
NO_END = 30 * 86_400.0
"""Timeout of a command that a person runs: effectively none, the person ends it."""
_log = logging.getLogger(__name__)


class Job(Struct, frozen=True):
    tool: AnyTool
    context: ToolContext
    report: Report
    hooks: Hooks


class Calls:
    def __init__(  # noqa: PLR0913  all that calls need
        self,
        *,
        store: Store,
        workplaces: Workplaces,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        group: asyncio.TaskGroup,
        reach: Reach,
        watch: Watch = UNWATCHED,
    ) -> None:
        self._watch = watch
        self._store = store
        self._workplaces = workplaces
        self._bus = bus
        self._clock = clock
        self._group = group
        self._lastings = Lastings(reach.config, ids)
        self._reach = reach
        self.trail = Trail(store=store, workplaces=workplaces, ids=ids)
        self._permissions = Permissions(
            store=store, standing=Standing(store, workplaces), clock=clock, ids=ids
        )

    async def start(self, run: Run, lease: Lease, snapshot: Snapshot) -> Snapshot:
        """Plan the requested calls; store which start, ask or fail; then start them."""
        assert snapshot.info is not None, "it comes from a store"
        try:
            async with run.interruptible():
                place = await enter(self._workplaces, snapshot.info.directory, working=True)
                requested = await self._prepared(place, lease, snapshot)
                moves = await self._moves(place, snapshot.info, lease, requested)
                moved = {move.call_id for move in moves}
                planned = [call for call in requested if call.id in moved]
                # Before they are stored as running: after that nothing may fail in between.
                jobs = {call.id: await self._job(call, place, snapshot.info) for call in planned}
                await self.trail.before(run, lease, snapshot, place, moves=moves)
        except TimeoutError:
            return await self._store.snapshot(lease)
        after = await self._store.advance(lease, moves)
        for call in after.executing:
            if call.id in jobs:
                run.aborts[call.id] = jobs[call.id].context.abort
                if call.later is not None:
                    run.starting.add(call.id)
                work = self._execute(run, lease, call, jobs[call.id])
                run.tasks[call.id] = self._group.create_task(work)
        return after

    async def _job(self, call: Call, place: Workplace, session: Session) -> Job:
        rules = await self._permissions.rules(call, place, session)
        report = Report(call, self._bus, self._clock)
        context = replace(
            self._context(call, place, session.directory), rules=rules, report=report, keep=report.keep
        )
        if call.tool == "bash" and "shell.env" in place.hooks.names:
            context = replace(context, environment=await place.hooks.shell_env(call, session.directory))
        tool = place.tools[call.tool]
        if tool.lasting is not None:
            context = replace(context, callback=await self._reach.callback(call.id))
        return Job(tool, context, report, place.hooks)

    async def _prepared(self, place: Workplace, lease: Lease, snapshot: Snapshot) -> tuple[Call, ...]:
        """Run the `tool.execute.before` hooks; the input they return is what is planned, stored and shown."""
        if "tool.execute.before" not in place.hooks.names:
            return snapshot.requested
        new = [call for call in snapshot.requested if not call.prepared]
        async with asyncio.TaskGroup() as group:
            verdicts = [group.create_task(place.hooks.tool_before(call)) for call in new]
        prepared = []
        for call, verdict in zip(new, (each.result() for each in verdicts), strict=True):
            if isinstance(verdict, Failed):
                await self._store.finish_call(lease, call.id, verdict)
            else:
                prepared.append(Prepared(call.id, verdict))
        after = await self._store.prepare(lease, tuple(prepared)) if new else snapshot
        known = {call.id for call in snapshot.requested}
        return tuple(call for call in after.requested if call.prepared and call.id in known)

    async def _moves(
        self, place: Workplace, session: Session, lease: Lease, calls: tuple[Call, ...]
    ) -> tuple[Move, ...]:
        moves: list[Move] = []
        for call, verdict in zip(calls, await self._verdicts(place, session, lease, calls), strict=True):
            if isinstance(verdict, Failed):
                self._watch.refused(call)
                await self._store.finish_call(lease, call.id, verdict)
            else:
                moves.append(Move(call.id, verdict))
        return tuple(moves)

    async def _verdicts(
        self, place: Workplace, session: Session, lease: Lease, calls: tuple[Call, ...]
    ) -> list[Running | Open | Failed]:
        """Plan all calls concurrently."""
        if len(calls) == 1:
            return [await self._plan(calls[0], place, session, lease)]
        try:
            async with asyncio.TaskGroup() as group:
                plans = [group.create_task(self._plan(call, place, session, lease)) for call in calls]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [plan.result() for plan in plans]

    async def _plan(
        self, call: Call, place: Workplace, session: Session, lease: Lease
    ) -> Running | Open | Failed:
        """Decide whether a requested call runs, asks first, or fails."""
        tool = place.tools.get(call.tool)
        if tool is None:
            return Failed(_missing(call.tool, place))
        if call.own:
            return Running(lease.fence)
        context = replace(
            self._context(call, place, session.directory),
            rules=await self._permissions.rules(call, place, session),
        )
        try:
            args = msgspec.convert(call.input, tool.args)
            async with asyncio.timeout(min(tool.timeout, PLAN_SECONDS)):
                asks = asked(await tool.plan(args, context)) if tool.plan else ()
        except msgspec.ValidationError as error:
            return Failed(
                f"The arguments do not fit {call.tool}: {repeated(call.tool, shortened(str(error), 500))}."
            )
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  its failure is a value
            return self._failed(call, error)
        verdict = await self._permissions.permit(Wish(call, context, asks), place, session)
        return verdict or Running(lease.fence, self._lastings.begun(tool, self._clock.now()))

    async def _execute(self, run: Run, lease: Lease, call: Call, job: Job) -> None:
        """Run one tool and commit its outcome. A cancel leaves the call open: the turn's rest settles it."""
        try:
            with self._watch.tool(call) as seen:
                outcome = _noted(
                    call, await self._after(call, job, await self._outcome(call, job, seen.trace))
                )
                seen.ended(outcome)
            job.report.end()
            try:
                await self._commit(lease, call, outcome)
            except InvalidInput as error:  # from its facts: nothing was committed
                await self._store.finish_call(lease, call.id, Failed(whole(str(error))))
        except Exception as error:  # noqa: BLE001  the edge of a call: the run drops it, the runtime goes on
            self._watch.report_fault("call", error)
            run.fail(error)
        except asyncio.CancelledError:
            run.hear_last(call, job.report.said)
            raise
        finally:
            job.report.end()
            run.tasks.pop(call.id, None)
            run.aborts.pop(call.id, None)
            run.starting.discard(call.id)
            run.poke()

    async def _commit(self, lease: Lease, call: Call, outcome: Ended) -> None:
        match outcome:
            case Opened(state, facts):
                await self._store.open_call(lease, call.id, state, facts)
            case Together(result, facts):
                assert not isinstance(result, Pending), "a pending result was opened before"
                await self._store.finish_call(lease, call.id, result, facts)
            case Completed() | Failed():
                await self._store.finish_call(lease, call.id, outcome)

    async def _after(self, call: Call, job: Job, outcome: Ended) -> Ended:
        """Add reported metadata to an outcome, and run the `tool.execute.after` hooks."""
        match outcome:
            case Together(Completed() | Failed() as result):
                after = await self._after(call, job, result)
                assert isinstance(after, Completed | Failed)
                return replace(outcome, result=after)
            case Completed() | Failed():
                kept = job.report.with_kept(outcome)
                if isinstance(kept, Completed) and "tool.execute.after" in job.hooks.names:
                    return await job.hooks.tool_after(call, kept)
                return kept
            case Opened(state):
                return replace(outcome, state=job.report.while_waiting(state))
            case Together():
                return outcome

    async def _outcome(self, call: Call, job: Job, trace: str | None) -> Ended:
        tool, context = job.tool, replace(job.context, trace=trace) if trace else job.context
        seconds = NO_END if call.own else tool.timeout
        limit = asyncio.timeout(seconds)
        late = asyncio.get_running_loop().call_later(seconds, job.context.abort.set)
        try:
            async with limit:
                outcome = checked(await tool.run(msgspec.convert(call.input, tool.args), context))
            return self._opened(call, tool, outcome)
        except TimeoutError as error:
            if limit.expired():
                return Failed(f"{TIMED_OUT} after {tool.timeout:g} s.")
            return self._failed(call, error)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  its failure is a value
            return self._failed(call, error)
        finally:
            late.cancel()

    def _failed(self, call: Call, error: BaseException) -> Failed:
        """Convert a tool's exception to the failure that the model reads; re-raise a cancel from outside."""
        if isinstance(error, asyncio.CancelledError) and told_to_stop():
            raise error
        if isinstance(error, ToolError):
            return Failed(whole(str(error)))
        _log.warning(
            "session=%s call=%s action=run tool=%s failed",
            call.session_id,
            call.id,
            call.tool,
            exc_info=error,
        )
        self._watch.report_fault("tool", error)
        return Failed(whole(f"{type(error).__name__}: {error}"))

    def _opened(self, call: Call, tool: AnyTool, outcome: Outcome) -> Ended:
        pending = outcome.result if isinstance(outcome, Together) else outcome
        if not isinstance(pending, Pending):
            assert not isinstance(outcome, Pending), "checked above"
            return outcome
        facts = outcome.facts if isinstance(outcome, Together) else ()
        state = self._lastings.opened(call, pending, tool, self._clock.now())
        return Opened(state, (*facts, *secrets(call, pending)))

    async def recover(self, run: Run, lease: Lease, snapshot: Snapshot) -> Snapshot:
        """Handle calls whose process died: request those that may run again, settle or open the others."""
        again: list[Move] = []
        try:
            async with run.interruptible():
                for call in snapshot.abandoned:
                    if call.effect != "once" and await self._may_run_again(call, snapshot):
                        again.append(Move(call.id, Requested()))
                        continue
                    known = await self._known(call, snapshot)
                    if isinstance(known, Open):
                        again.append(Move(call.id, known))
                    else:
                        await self._store.finish_call(lease, call.id, known)
        except TimeoutError:
            return await self._store.snapshot(lease)
        return await self._store.advance(lease, tuple(again))

    async def _may_run_again(self, call: Call, snapshot: Snapshot) -> bool:
        """Whether a call may run again: not an async one without its tool, as its result may still come."""
        if call.later is None:
            return True  # without its tool the new run fails
        assert snapshot.info is not None, "it comes from a store"
        return call.tool in (await enter(self._workplaces, snapshot.info.directory)).tools

    async def _known(self, call: Call, snapshot: Snapshot) -> Result | Open:
        """Ask the tool what became of a call whose process died; an async call stays open for its result."""
        assert snapshot.info is not None, "it comes from a store"
        doubt: Result | Open = Failed(IN_DOUBT, metadata={"inDoubt": True})
        place = await enter(self._workplaces, snapshot.info.directory)
        tool = place.tools.get(call.tool)
        if call.later is not None:
            doubt = self._lastings.reopened(call, call.later, tool, self._clock.now())
        if tool is None or tool.reconcile is None:
            return doubt
        context = self._context(call, place, snapshot.info.directory)
        if tool.lasting is not None:
            context = replace(context, callback=await self._reach.callback(call.id))
        try:
            async with asyncio.timeout(tool.timeout):
                known = await tool.reconcile(msgspec.convert(call.input, tool.args), context)
            return known_result(known) if known is not None else doubt
        except (Exception, asyncio.CancelledError) as error:
            if told_to_stop():
                raise
            _log.exception(
                "session=%s call=%s action=reconcile tool=%s failed", call.session_id, call.id, call.tool
            )
            self._watch.report_fault("tool", error)
            return doubt

    def _context(self, call: Call, place: Workplace, directory: str) -> ToolContext:
        return ToolContext(
            session_id=call.session_id,
            message_id=call.message_id,
            call_id=call.id,
            agent=call.agent,
            directory=directory,
            worktree=place.worktree or directory,
            by_hand=BY_HAND in call.granted,
            own=call.own,
            approved=bool(call.granted),
        )


def _missing(tool: str, place: Workplace) -> str:
    if isinstance(place, Unusable):
        return f"No tool can be used here: {place.why}"
    known = ", ".join(sorted(place.tools)) or "none"
    return f"There is no tool named {tool!r}. Available: {known}."


def _noted(call: Call, outcome: Ended) -> Ended:
    """Prefix a result with a note if a person edited the call's arguments."""
    match outcome:
        case Completed(output) if call.written is not None:
            return replace(outcome, output=f"{EDITED}\n\n{output}")
        case Failed(error) if call.written is not None:
            return replace(outcome, error=f"{EDITED}\n\n{error}")
        case Together(Completed() | Failed() as result) if call.written is not None:
            noted = _noted(call, result)
            assert isinstance(noted, Completed | Failed)
            return replace(outcome, result=noted)
        case _:
            return outcome
