"""Run one step: send the request, store and publish the streamed answer, and store how it ended."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.conversation.failure import APIError
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef
from asyncagents.domain.conversation.part import RetryPart, RetryTime
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import Ids, RequestId
from asyncagents.domain.session_state import Claim, Snapshot
from asyncagents.domain.step import (
    TASK_TOOL,
    NewStep,
    NewSummary,
    Reminder,
    StartedStep,
    StepEnd,
    StepRetry,
    SubtaskOptions,
)
from asyncagents.domain.task.notice import NoticeOptions
from asyncagents.engine.decide import is_turn_over
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.external.agent import EXTERNAL_LANE
from asyncagents.engine.external.stream import ExternalStreams, StepOutlet, as_external, end_external
from asyncagents.engine.model_input import ModelInput
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.run import Run
from asyncagents.engine.step.compaction import (
    NOTHING_TO_SUMMARISE,
    Compaction,
    SummaryRequest,
)
from asyncagents.engine.step.continuation import Continuation
from asyncagents.engine.step.draft import Draft
from asyncagents.engine.step.hooks import transform_open_texts
from asyncagents.engine.step.model_stream import ModelStreams
from asyncagents.engine.step.retry import MAX_INLINE_WAIT_MS, RetryHint, is_rate_limited, retry_pause_ms
from asyncagents.engine.step.step_request import StepRequest
from asyncagents.engine.step.stream_writer import StreamWriter
from asyncagents.engine.step.structured_output import OutputAcceptance, with_output_tool
from asyncagents.engine.step.title import Titles, is_first_prompt
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.permission import RuleResolver
from asyncagents.engine.workplace.session_workplace import working_place
from asyncagents.engine.workplace.workplace import Brief, Workplace, Workplaces, workplace_at
from asyncagents.errors import InvalidInput
from asyncagents.llm.limits import Limits, Slot
from asyncagents.llm.model import ChatRequest, Model, WindowLookup
from asyncagents.store.store import Store

SHORT_HISTORY = 32
"""A history up to this length is read with the first step; a longer one before, outside the writer."""

COOLING = "The provider limits how often this model is asked; it is asked again soon."

_log = logging.getLogger(__name__)

PRUNE_BATCH_SIZE = 50


class EndedStep(Struct, frozen=True):
    claim: Claim
    started: StartedStep
    end: StepEnd
    retry_hint: RetryHint


class StepRunner:
    def __init__(  # noqa: PLR0913  all that a step needs
        self,
        *,
        store: Store,
        model: Model,
        workplaces: Workplaces,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        rng: Rng,
        limits: Limits,
        windows: WindowLookup,
        titles: Titles,
        external_streams: ExternalStreams,
        group: asyncio.TaskGroup,
        over: Callable[[Snapshot], bool] | None = None,
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        """`over`: predicate to end the turn in the step's transaction; None if `before_rest` is asked."""
        self._is_over = over
        self._titles = titles
        self._windows = windows
        self._compaction = Compaction(store=store, ids=ids, windows=windows)
        self._continuation = Continuation(store=store, clock=clock, ids=ids)
        self._rule_resolver = RuleResolver(store, workplaces)
        self._external_streams = external_streams
        self._store = store
        self._model_streams = ModelStreams(model, clock=clock, observer=observer)
        self._workplaces = workplaces
        self._bus = bus
        self._clock = clock
        self._ids = ids
        self._rng = rng
        self._limits = limits
        self._group = group

    async def run_step(self, run: Run, claim: Claim, snapshot: Snapshot) -> Snapshot:
        """Run a step and return the snapshot after it; a cancel before it begins changes nothing."""
        assert snapshot.model is not None, "input says which model reads it"
        if not await self._wait_for_servers(run, snapshot):
            return await self._store.snapshot(claim)
        lane = await self._lane(snapshot)
        slot = await self._wait_for_slot(run, lane)
        if slot is None:
            return await self._store.snapshot(claim)
        try:
            until = self._limits.wait_until(lane)
            if until - self._clock.now() > MAX_INLINE_WAIT_MS:
                return await self._store.hold_step(claim, self._ids.request(), until=until, why=COOLING)
            if until and not await self._wait_for_cool_down(run, until):
                return await self._store.snapshot(claim)
            return await self._run_with_slot(run, claim, snapshot, slot)
        finally:
            slot.release()

    async def _lane(self, snapshot: Snapshot) -> ModelRef:
        """Return the model whose slots the next step takes; external agents share a lane."""
        assert snapshot.info is not None and snapshot.model is not None
        workplace = await workplace_at(self._workplaces, snapshot.info.directory)
        return EXTERNAL_LANE if workplace.backend(snapshot.info.agent or "") else snapshot.model

    async def _wait_for_servers(self, run: Run, snapshot: Snapshot) -> bool:
        """Wait for MCP servers before taking a slot. Returns False if the turn was interrupted first."""
        if self._workplaces.is_fixed and not self._workplaces.has_hooks:
            return True
        try:
            async with run.interruptible():
                await working_place(self._store, self._workplaces, snapshot, user=run, working=True)
        except TimeoutError:
            return False
        return True

    async def _wait_for_slot(self, run: Run, model: ModelRef) -> Slot | None:
        """Wait for a slot at the model; None if the turn was interrupted first."""
        if not self._limits.is_full(model):
            return await self._limits.slot(model)
        try:
            async with run.interruptible():
                return await self._limits.slot(model)
        except TimeoutError:
            return None

    async def _wait_for_cool_down(self, run: Run, until: int) -> bool:
        """Wait until the model's cool-down ends. Returns False if the turn was interrupted first."""
        try:
            async with run.interruptible():
                await asyncio.sleep(max(0, until - self._clock.now()) / 1000)
        except TimeoutError:
            return False
        return True

    async def _run_with_slot(self, run: Run, claim: Claim, snapshot: Snapshot, slot: Slot) -> Snapshot:
        assert snapshot.info is not None, "it comes from a store"
        workplace = await working_place(self._store, self._workplaces, snapshot, user=run)
        started, request_id = await self._start_step(run, claim, snapshot, workplace)
        if started is None:
            return await self._store.snapshot(claim)
        if started.number == 1 and is_first_prompt(started.tail):
            self._titles.begin(snapshot.info, workplace, started.tail, started.message.model_ref)
        backend = None if started.message.summary else workplace.backend(started.message.agent)
        lane = EXTERNAL_LANE if backend else started.message.model_ref
        if lane != await self._lane(snapshot):  # the model of a summary has its own slots
            slot.release()
            slot = await self._wait_for_slot(run, lane) or slot
        started = as_external(started) if backend else started
        draft = Draft(started.message, request_id, self._ids, turn=started.turn)
        writer = StreamWriter(
            store=self._store, bus=self._bus, clock=self._clock, group=self._group, run=run, draft=draft
        )
        outlet = StepOutlet(run, draft, writer, workplace, started, snapshot)
        try:
            step_request = await self._stream(outlet, backend)
            slot.release()
            await writer.close()
        finally:
            slot.release()
            writer.drop()
        end = await self._build_end(outlet, step_request)
        ended = EndedStep(claim, started, writer.complete_step(end), draft.retry_hint)
        return await self._finish_step(run, ended, step_request)

    async def _stream(self, outlet: StepOutlet, backend: AcpBackend | None) -> StepRequest:
        """Prepare the request of a step, and stream the answer of its model or external agent."""
        workplace, started, snapshot = outlet.workplace, outlet.started, outlet.snapshot
        if backend is None:
            step_request = await self._prepare_request(outlet.run, workplace, started, snapshot)
        else:
            step_request = await self._external_streams.prepare(backend, workplace, started, snapshot)
        if step_request.external is None:
            await self._model_streams.read(outlet.run, outlet.draft, outlet.writer, step_request)
        else:
            await self._external_streams.read(step_request.external, outlet)
        return step_request

    async def _build_end(self, outlet: StepOutlet, step_request: StepRequest) -> StepEnd:
        draft, last = outlet.draft, step_request.last
        if "experimental.text.complete" in step_request.hooks.names:
            await transform_open_texts(step_request.hooks, draft, hurry=outlet.run.interrupted)
        now = self._clock.now()
        end = draft.end(now, outlet.workplace.effects, last=last)
        if step_request.external is not None:
            return end_external(end)
        if outlet.started.output_format is not None:
            end = OutputAcceptance(outlet.started.output_format, self._ids, now, last=last).judge_end(end)
        if draft.continues and not last:
            end = await self._continuation.extend_step(end, outlet.workplace)
        return end

    async def _prepare_request(
        self, run: Run, workplace: Workplace, started: StartedStep, snapshot: Snapshot
    ) -> StepRequest:
        message, session = started.message, snapshot.info
        assert session is not None, "it comes from a store"
        if message.summary:
            summary = await self._prepare_summary(run, workplace, started, snapshot)
            return StepRequest(
                request=summary.request, why_not=NOTHING_TO_SUMMARISE, last=True, summary=summary
            )
        try:
            rules = await self._rule_resolver.effective_rules(
                workplace, message.agent, session, above=started.ancestors
            )
            brief = workplace.brief(message.agent, rules)
        except InvalidInput as error:  # the agent is gone
            return StepRequest(request=None, why_not=str(error))
        brief = brief.with_system(started.system)
        run.overhead = brief.tokens
        last = brief.steps is not None and started.number >= brief.steps
        if started.output_format is not None:
            brief = with_output_tool(brief, started.output_format, last=last)
        return StepRequest(
            request=_build_request(run, message, brief),
            last=last,
            hooks=workplace.hooks,
            room=self._compaction.threshold(run, workplace, message.model_ref),
            shrinks=workplace.compaction_policy.auto,
        )

    async def _prepare_summary(
        self, run: Run, workplace: Workplace, started: StartedStep, snapshot: Snapshot
    ) -> SummaryRequest:
        """Prepare the summary request with plugin hooks; an abort interrupts them."""
        assert snapshot.model is not None, "input says which model reads it"
        try:
            async with run.interruptible():
                return await self._compaction.prepare(started, workplace, reader=snapshot.model)
        except TimeoutError:
            return SummaryRequest(None, None)

    async def _start_step(
        self, run: Run, claim: Claim, snapshot: Snapshot, workplace: Workplace
    ) -> tuple[StartedStep | None, RequestId]:
        control = snapshot.control
        if run.model_input.since == 0 and (control.summary or control.positions > SHORT_HISTORY):
            history = await self._store.model_history(claim.session_id)
            run.model_input.begin_with_summary(history.head)
            run.model_input.extend(history.entries, history.shown, since=history.since)
        new = self._new_step(run, workplace, snapshot)
        started = await self._store.start_step(claim, new)
        if started is not None and not started.message.summary:
            run.model_input.extend(started.tail, started.shown, since=started.position)
        return started, new.request_id

    def _new_step(self, run: Run, workplace: Workplace, snapshot: Snapshot) -> NewStep:
        assert snapshot.model is not None, "input says which model reads it"
        assert snapshot.info is not None, "it comes from a store"
        external = workplace.backend(snapshot.info.agent or "") is not None
        if not external and not run.overhead and self._windows(snapshot.model).context:
            _weigh_brief(run, workplace, snapshot.info)
        room = None if external else self._compaction.threshold(run, workplace, snapshot.model)
        model = None if (own := workplace.summary_request(snapshot.model).model) == snapshot.model else own
        # Messages sort by their ids: new ids must follow those before the step, also those of a client whose
        # clock is ahead and that talked to another process.
        self._ids.try_advance_past(snapshot.newest, snapshot.last.id if snapshot.last else None)
        notice_id, *before, message_id = self._ids.messages(5)
        return NewStep(
            reminder=Reminder(before[0], workplace.reminders) if workplace.reminds else None,
            message_id=message_id,
            part_id=self._ids.part(),
            request_id=self._ids.request(),
            since=run.model_input.since,
            history_tokens=run.model_input.tokens + run.overhead,
            summary=NewSummary(before[2], self._ids.part(), model, room),
            tasking=SubtaskOptions(
                effect=workplace.effects.get(TASK_TOOL, "once"),
                go_on=prompt_text("subtask-done"),
                message_id=before[1],
            ),
            notices=NoticeOptions(message_id=notice_id, how=workplace.notice_format),
            with_lineage=not self._workplaces.is_fixed,
        )

    async def _finish_step(self, run: Run, ended: EndedStep, step_request: StepRequest) -> Snapshot:
        """Close the step, or store a backoff until its next try."""
        claim, end, attempt = ended.claim, ended.end, ended.started.attempt
        failure = end.message.error
        wait = retry_pause_ms(failure, attempt, ended.retry_hint, self._rng)
        if wait is None or not isinstance(failure, APIError):
            return await self._close_step(run, ended, step_request)
        now = self._clock.now()
        message = end.message
        if is_rate_limited(failure):
            model = ModelRef(provider_id=message.provider_id, model_id=message.model_id)
            self._limits.cool_down(model, until=now + wait)
        part = RetryPart(
            id=self._ids.part(),
            session_id=claim.session_id,
            message_id=message.id,
            attempt=attempt,
            error=failure,
            time=RetryTime(created=now),
        )
        retry = StepRetry(end=end, part=part, next_at=now + wait)
        return await self._store.retry_step(claim, retry)

    async def _close_step(self, run: Run, ended: EndedStep, step_request: StepRequest) -> Snapshot:
        end = ended.end
        if step_request.summary is None:
            over = (
                None
                if end.facts or run.starting or run.has_changed_files or run.model_input.stale_outputs()
                else self._is_over
            )
            if end.goes_on is not None:
                over = is_turn_over
            elif over is not None:
                run.clear_wake()  # a wake after this starts a new run
            end = replace(
                end,
                full=step_request.is_full(end.message),
                over=over,
                minds_todos=not self._workplaces.is_fixed,
            )
            return await self._store.finish_step(ended.claim, end)
        summary_end = self._compaction.build_summary_end(end, ended.started, step_request.summary)
        snapshot = await self._store.finish_summary(ended.claim, summary_end)
        run.model_input = ModelInput()
        return snapshot

    async def prune(self, run: Run, claim: Claim, directory: str) -> None:
        """Prune old outputs from later requests, if there are enough of them."""
        stale = run.model_input.stale_outputs()
        if not stale or not (await workplace_at(self._workplaces, directory)).compaction_policy.prune:
            return
        for start in range(0, len(stale), PRUNE_BATCH_SIZE):
            await self._store.prune(claim, stale[start : start + PRUNE_BATCH_SIZE])
        run.model_input = ModelInput()


def _weigh_brief(run: Run, workplace: Workplace, session: Session) -> None:
    """Estimate the tokens of the brief before a run's first step, without the rules of ancestors (which may
    hide tools); later steps use those of the step before."""
    agent = session.agent or ""
    with suppress(InvalidInput):  # the step reports it
        run.overhead = workplace.brief(agent, workplace.rules(agent, session)).tokens


def _build_request(run: Run, message: AssistantMessage, brief: Brief) -> ChatRequest:
    return ChatRequest(
        model=message.model_ref,
        messages=run.model_input.messages,
        tools=brief.specs,
        system=brief.system,
        options=brief.options,
        tool_choice=brief.tool_choice,
    )
