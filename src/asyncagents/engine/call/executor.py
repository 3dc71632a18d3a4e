"""Execute calls: plan, permit, start after the intent is stored, then settle or open them."""

import asyncio
import logging

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    EDITED,
    IN_DOUBT,
    TIMED_OUT,
    WRITTEN_BY_PERSON,
    Call,
    Completed,
    Failed,
    Open,
    Requested,
    Result,
    Running,
)
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import Ids
from asyncagents.domain.session_state import Claim, Snapshot
from asyncagents.domain.step import CallMove, PreparedInput
from asyncagents.domain.text import replace_surrogates, shorten_middle
from asyncagents.engine.call.file_changes import FileChanges
from asyncagents.engine.call.incoming_webhook import IncomingWebhook
from asyncagents.engine.call.pending import PendingPolicy, secret_facts
from asyncagents.engine.call.progress import ProgressReporter
from asyncagents.engine.call.result_check import check_asks, check_outcome, check_reconciled
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.model_input import quote_model_text
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.run import Run, is_being_cancelled
from asyncagents.engine.tool import (
    AnyTool,
    CallOutcome,
    OpenedCall,
    Outcome,
    Pending,
    ToolContext,
    WithFacts,
)
from asyncagents.engine.workplace.hooks import Hooks
from asyncagents.engine.workplace.permission import Permissions, PlannedCall, RuleResolver
from asyncagents.engine.workplace.session_workplace import working_place
from asyncagents.engine.workplace.workplace import UnusableWorkplace, Workplace, Workplaces, workplace_at
from asyncagents.errors import InvalidInput, ToolError
from asyncagents.store.store import Store

PLAN_SECONDS = 60
"""Limit of one plan; the calls of a step start when all of them are planned."""
OWN_CALL_SECONDS = 30 * 86_400.0
"""Timeout of a command that a person runs: effectively none, the person ends it."""
_log = logging.getLogger(__name__)


class PreparedCall(Struct, frozen=True):
    tool: AnyTool
    context: ToolContext
    report: ProgressReporter
    hooks: Hooks


class CallExecutor:
    def __init__(  # noqa: PLR0913  all that calls need
        self,
        *,
        store: Store,
        workplaces: Workplaces,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        group: asyncio.TaskGroup,
        webhook: IncomingWebhook,
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        self._observer = observer
        self._store = store
        self._workplaces = workplaces
        self._bus = bus
        self._clock = clock
        self._group = group
        self._pending_policy = PendingPolicy(webhook.config, ids)
        self._webhook = webhook
        self.file_changes = FileChanges(store=store, workplaces=workplaces, ids=ids)
        self._permissions = Permissions(
            store=store, standing=RuleResolver(store, workplaces), clock=clock, ids=ids
        )

    async def start(self, run: Run, claim: Claim, snapshot: Snapshot) -> Snapshot:
        """Plan the requested calls; store which start, ask or fail; then start them."""
        assert snapshot.info is not None, "it comes from a store"
        try:
            async with run.interruptible():
                workplace = await working_place(
                    self._store, self._workplaces, snapshot, user=run, working=True
                )
                requested = await self._run_before_hooks(workplace, claim, snapshot)
                moves = await self._plan_moves(workplace, snapshot.info, claim, requested)
                moved = {move.call_id for move in moves}
                planned = [call for call in requested if call.id in moved]
                # Before they are stored as running: after that nothing may fail in between.
                jobs = {call.id: await self._prepare_call(call, workplace, snapshot.info) for call in planned}
                await self.file_changes.take_before(run, claim, snapshot, workplace, moves=moves)
        except TimeoutError:
            return await self._store.snapshot(claim)
        after = await self._store.advance(claim, moves)
        for call in after.executing_calls:
            if call.id in jobs:
                run.aborts[call.id] = jobs[call.id].context.abort
                if call.later is not None:
                    run.starting.add(call.id)
                work = self._execute(run, claim, call, jobs[call.id])
                run.tasks[call.id] = self._group.create_task(work)
        return after

    async def _prepare_call(self, call: Call, workplace: Workplace, session: Session) -> PreparedCall:
        rules = await self._permissions.call_rules(call, workplace, session)
        report = ProgressReporter(call, self._bus, self._clock)
        context = replace(
            self._build_context(call, workplace, session.directory),
            rules=rules,
            report=report,
            keep=report.keep,
        )
        if call.tool == "bash" and "shell.env" in workplace.hooks.names:
            context = replace(context, environment=await workplace.hooks.shell_env(call, session.directory))
        tool = workplace.tools[call.tool]
        if tool.async_spec is not None:
            context = replace(context, callback=await self._webhook.result_webhook(call.id))
        return PreparedCall(tool, context, report, workplace.hooks)

    async def _run_before_hooks(
        self, workplace: Workplace, claim: Claim, snapshot: Snapshot
    ) -> tuple[Call, ...]:
        """Run the `tool.execute.before` hooks; the input they return is what is planned, stored and shown."""
        if "tool.execute.before" not in workplace.hooks.names:
            return snapshot.requested_calls
        new = [call for call in snapshot.requested_calls if not call.prepared]
        async with asyncio.TaskGroup() as group:
            verdicts = [group.create_task(workplace.hooks.tool_before(call)) for call in new]
        prepared = []
        for call, verdict in zip(new, (each.result() for each in verdicts), strict=True):
            if isinstance(verdict, Failed):
                await self._store.finish_call(claim, call.id, verdict)
            else:
                prepared.append(PreparedInput(call.id, verdict))
        after = await self._store.prepare(claim, tuple(prepared)) if new else snapshot
        known = {call.id for call in snapshot.requested_calls}
        return tuple(call for call in after.requested_calls if call.prepared and call.id in known)

    async def _plan_moves(
        self, workplace: Workplace, session: Session, claim: Claim, calls: tuple[Call, ...]
    ) -> tuple[CallMove, ...]:
        moves: list[CallMove] = []
        for call, verdict in zip(
            calls, await self._plan_calls(workplace, session, claim, calls), strict=True
        ):
            if isinstance(verdict, Failed):
                self._observer.report_refused(call)
                await self._store.finish_call(claim, call.id, verdict)
            else:
                moves.append(CallMove(call.id, verdict))
        return tuple(moves)

    async def _plan_calls(
        self, workplace: Workplace, session: Session, claim: Claim, calls: tuple[Call, ...]
    ) -> list[Running | Open | Failed]:
        """Plan all calls concurrently."""
        if len(calls) == 1:
            return [await self._plan_call(calls[0], workplace, session, claim)]
        try:
            async with asyncio.TaskGroup() as group:
                plans = [
                    group.create_task(self._plan_call(call, workplace, session, claim)) for call in calls
                ]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [plan.result() for plan in plans]

    async def _plan_call(
        self, call: Call, workplace: Workplace, session: Session, claim: Claim
    ) -> Running | Open | Failed:
        """Decide whether a requested call runs, asks first, or fails."""
        tool = workplace.tools.get(call.tool)
        if tool is None:
            return Failed(_missing_tool_text(call.tool, workplace))
        if call.is_run_by_person:
            return Running(claim.fence)
        context = replace(
            self._build_context(call, workplace, session.directory),
            rules=await self._permissions.call_rules(call, workplace, session),
        )
        try:
            args = msgspec.convert(call.input, tool.args)
            async with asyncio.timeout(min(tool.timeout, PLAN_SECONDS)):
                asks = check_asks(await tool.plan(args, context)) if tool.plan else ()
        except msgspec.ValidationError as error:
            text = quote_model_text(call.tool, shorten_middle(str(error), 500))
            return Failed(f"The arguments do not fit {call.tool}: {text}.")
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  its failure is a value
            return self._as_failure(call, error)
        verdict = await self._permissions.permit(PlannedCall(call, context, asks), workplace, session)
        return verdict or Running(claim.fence, self._pending_policy.start_state(tool, self._clock.now()))

    async def _execute(self, run: Run, claim: Claim, call: Call, prepared: PreparedCall) -> None:
        """Run one tool and commit its outcome. A cancel leaves the call open: the turn's rest settles it."""
        try:
            with self._observer.tool_span(call) as seen:
                outcome = _with_edit_note(
                    call,
                    await self._run_after_hooks(
                        call, prepared, await self._run_tool(call, prepared, seen.trace)
                    ),
                )
                seen.record_outcome(outcome)
            prepared.report.end()
            try:
                await self._commit_outcome(claim, call, outcome)
            except InvalidInput as error:  # from its facts: nothing was committed
                await self._store.finish_call(claim, call.id, Failed(replace_surrogates(str(error))))
        except Exception as error:  # noqa: BLE001  the edge of a call: the run drops it, the runtime goes on
            self._observer.report_fault("call", error)
            run.fail(error)
        except asyncio.CancelledError:
            run.keep_last_output(call, prepared.report.last_metadata)
            raise
        finally:
            prepared.report.end()
            run.tasks.pop(call.id, None)
            run.aborts.pop(call.id, None)
            run.starting.discard(call.id)
            run.wake()

    async def _commit_outcome(self, claim: Claim, call: Call, outcome: CallOutcome) -> None:
        match outcome:
            case OpenedCall(state, facts):
                await self._store.open_call(claim, call.id, state, facts)
            case WithFacts(result, facts):
                assert not isinstance(result, Pending), "a pending result was opened before"
                await self._store.finish_call(claim, call.id, result, facts)
            case Completed() | Failed():
                await self._store.finish_call(claim, call.id, outcome)

    async def _run_after_hooks(self, call: Call, prepared: PreparedCall, outcome: CallOutcome) -> CallOutcome:
        """Add reported metadata to an outcome, and run the `tool.execute.after` hooks."""
        match outcome:
            case WithFacts(Completed() | Failed() as result):
                after = await self._run_after_hooks(call, prepared, result)
                assert isinstance(after, Completed | Failed)
                return replace(outcome, result=after)
            case Completed() | Failed():
                full_result = prepared.report.add_to_result(outcome)
                if isinstance(full_result, Completed) and "tool.execute.after" in prepared.hooks.names:
                    return await prepared.hooks.tool_after(call, full_result)
                return full_result
            case OpenedCall(state):
                return replace(outcome, state=prepared.report.add_to_state(state))
            case WithFacts():
                return outcome

    async def _run_tool(self, call: Call, prepared: PreparedCall, trace: str | None) -> CallOutcome:
        tool, context = prepared.tool, replace(prepared.context, trace=trace) if trace else prepared.context
        seconds = OWN_CALL_SECONDS if call.is_run_by_person else tool.timeout
        limit = asyncio.timeout(seconds)
        late = asyncio.get_running_loop().call_later(seconds, prepared.context.abort.set)
        try:
            async with limit:
                outcome = check_outcome(await tool.run(msgspec.convert(call.input, tool.args), context))
            return self._open_pending(call, tool, outcome)
        except TimeoutError as error:
            if limit.expired():
                return Failed(f"{TIMED_OUT} after {tool.timeout:g} s.")
            return self._as_failure(call, error)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  its failure is a value
            return self._as_failure(call, error)
        finally:
            late.cancel()

    def _as_failure(self, call: Call, error: BaseException) -> Failed:
        """Convert a tool's exception to the failure that the model reads; re-raise a cancel from outside."""
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise error
        if isinstance(error, ToolError):
            return Failed(replace_surrogates(str(error)))
        _log.warning(
            "session=%s call=%s action=run tool=%s failed",
            call.session_id,
            call.id,
            call.tool,
            exc_info=error,
        )
        self._observer.report_fault("tool", error)
        return Failed(replace_surrogates(f"{type(error).__name__}: {error}"))

    def _open_pending(self, call: Call, tool: AnyTool, outcome: Outcome) -> CallOutcome:
        pending = outcome.result if isinstance(outcome, WithFacts) else outcome
        if not isinstance(pending, Pending):
            assert not isinstance(outcome, Pending), "checked above"
            return outcome
        facts = outcome.facts if isinstance(outcome, WithFacts) else ()
        state = self._pending_policy.open_state(call, pending, tool, self._clock.now())
        return OpenedCall(state, (*facts, *secret_facts(call, pending)))

    async def reconcile(self, run: Run, claim: Claim, snapshot: Snapshot) -> Snapshot:
        """Handle calls whose process died: request those that may run again, settle or open the others."""
        again: list[CallMove] = []
        try:
            async with run.interruptible():
                for call in snapshot.abandoned_calls:
                    if call.effect != "once" and await self._may_run_again(call, snapshot):
                        again.append(CallMove(call.id, Requested()))
                        continue
                    known = await self._reconcile_call(call, snapshot)
                    if isinstance(known, Open):
                        again.append(CallMove(call.id, known))
                    else:
                        await self._store.finish_call(claim, call.id, known)
        except TimeoutError:
            return await self._store.snapshot(claim)
        return await self._store.advance(claim, tuple(again))

    async def _may_run_again(self, call: Call, snapshot: Snapshot) -> bool:
        """Whether a call may run again: not an async one without its tool, as its result may still come."""
        if call.later is None:
            return True  # without its tool the new run fails
        assert snapshot.info is not None, "it comes from a store"
        return call.tool in (await workplace_at(self._workplaces, snapshot.info.directory)).tools

    async def _reconcile_call(self, call: Call, snapshot: Snapshot) -> Result | Open:
        """Ask the tool what became of a call whose process died; an async call stays open for its result."""
        assert snapshot.info is not None, "it comes from a store"
        doubt: Result | Open = Failed(IN_DOUBT, metadata={"inDoubt": True})
        workplace = await workplace_at(self._workplaces, snapshot.info.directory)
        tool = workplace.tools.get(call.tool)
        if call.later is not None:
            doubt = self._pending_policy.reopen_state(call, call.later, tool, self._clock.now())
        if tool is None or tool.reconcile is None:
            return doubt
        context = self._build_context(call, workplace, snapshot.info.directory)
        if tool.async_spec is not None:
            context = replace(context, callback=await self._webhook.result_webhook(call.id))
        try:
            async with asyncio.timeout(tool.timeout):
                known = await tool.reconcile(msgspec.convert(call.input, tool.args), context)
            return check_reconciled(known) if known is not None else doubt
        except (Exception, asyncio.CancelledError) as error:
            if is_being_cancelled():
                raise
            _log.exception(
                "session=%s call=%s action=reconcile tool=%s failed", call.session_id, call.id, call.tool
            )
            self._observer.report_fault("tool", error)
            return doubt

    def _build_context(self, call: Call, workplace: Workplace, directory: str) -> ToolContext:
        return ToolContext(
            session_id=call.session_id,
            message_id=call.message_id,
            call_id=call.id,
            agent=call.agent,
            directory=directory,
            worktree=workplace.worktree or directory,
            by_hand=WRITTEN_BY_PERSON in call.granted,
            own=call.is_run_by_person,
            approved=bool(call.granted),
        )


def _missing_tool_text(tool: str, workplace: Workplace) -> str:
    if isinstance(workplace, UnusableWorkplace):
        return f"No tool can be used here: {workplace.why}"
    known = ", ".join(sorted(workplace.tools)) or "none"
    return f"There is no tool named {tool!r}. Available: {known}."


def _with_edit_note(call: Call, outcome: CallOutcome) -> CallOutcome:
    """Prefix a result with a note if a person edited the call's arguments."""
    match outcome:
        case Completed(output) if call.written is not None:
            return replace(outcome, output=f"{EDITED}\n\n{output}")
        case Failed(error) if call.written is not None:
            return replace(outcome, error=f"{EDITED}\n\n{error}")
        case WithFacts(Completed() | Failed() as result) if call.written is not None:
            noted = _with_edit_note(call, result)
            assert isinstance(noted, Completed | Failed)
            return replace(outcome, result=noted)
        case _:
            return outcome
