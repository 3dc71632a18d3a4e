"""Run one step: send the request, store and publish the streamed answer, and store how it ended."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.conversation.failure import APIError, Failure, unknown
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef
from asyncagents.domain.conversation.part import RetryPart, RetryTime
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import Ids, RequestId
from asyncagents.domain.port import Clock, Rng
from asyncagents.engine.decide import is_over
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.model_input import Prompt
from asyncagents.engine.observer import UNWATCHED, Watch
from asyncagents.engine.run import Run, told_to_stop
from asyncagents.engine.step.compaction import EMPTY, NOTHING, Compaction, Summary, longest_summary
from asyncagents.engine.step.continuation import Continuation
from asyncagents.engine.step.draft import Draft
from asyncagents.engine.step.hooks import complete, complete_rest, shaped
from asyncagents.engine.step.retry import PATIENCE_MS, RetryHint, pause, rate_limited
from asyncagents.engine.step.step_request import Job
from asyncagents.engine.step.stream_writer import Scribe
from asyncagents.engine.step.structured_output import Acceptance, offered
from asyncagents.engine.step.title import Titles, first_prompt
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.hooks import Hooks
from asyncagents.engine.workplace.permission import Standing
from asyncagents.engine.workplace.workplace import Brief, Workplace, Workplaces, enter
from asyncagents.errors import InvalidInput, ModelError
from asyncagents.llm.limits import Limits, Slot
from asyncagents.llm.model import Model, Request, Windows
from asyncagents.store.store import Store
from asyncagents.store.verb.compact import NewSummary
from asyncagents.store.verb.promote import Told
from asyncagents.store.verb.remind import Aside
from asyncagents.store.verb.step import NewStep, Retrying, Started, StepEnd
from asyncagents.store.verb.subtask import TASK, Tasking

SHORT_HISTORY = 32
"""A history up to this length is read with the first step; a longer one before, outside the writer."""

COOLING = "The provider limits how often this model is asked; it is asked again soon."

NARROW = (
    "%s/%s has room for %d tokens, and the system prompt and tools alone take about %d: no summary could make"
    " room, so none is made. Use a model with a longer context, or an agent with fewer tools."
)

_log = logging.getLogger(__name__)

PRUNED_AT_ONCE = 50


class Ended(Struct, frozen=True):
    lease: Lease
    started: Started
    end: StepEnd
    retry_hint: RetryHint


class Turn:
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
        windows: Windows,
        titles: Titles,
        group: asyncio.TaskGroup,
        over: Callable[[Snapshot], bool] | None = None,
        watch: Watch = UNWATCHED,
    ) -> None:
        """`over`: predicate to end the turn in the step's transaction; None if `before_rest` is asked."""
        self._over = over
        self._watch = watch
        self._titles = titles
        self._windows = windows
        self._narrow: set[ModelRef] = set()
        self._compaction = Compaction(store=store, ids=ids)
        self._continuation = Continuation(store=store, clock=clock, ids=ids)
        self._standing = Standing(store, workplaces)
        self._store = store
        self._model = model
        self._workplaces = workplaces
        self._bus = bus
        self._clock = clock
        self._ids = ids
        self._rng = rng
        self._limits = limits
        self._group = group

    async def step(self, run: Run, lease: Lease, snapshot: Snapshot) -> Snapshot:
        """Run a step and return the snapshot after it; a cancel before it begins changes nothing."""
        assert snapshot.model is not None, "input says which model reads it"
        if not await self._ready(run, snapshot):
            return await self._store.snapshot(lease)
        slot = await self._slot(run, snapshot.model)
        if slot is None:
            return await self._store.snapshot(lease)
        try:
            until = self._limits.wait_until(snapshot.model)
            if until - self._clock.now() > PATIENCE_MS:
                return await self._store.hold_step(lease, self._ids.request(), until=until, why=COOLING)
            if until and not await self._cooled(run, until):
                return await self._store.snapshot(lease)
            return await self._step(run, lease, snapshot, slot)
        finally:
            slot.release()

    async def _ready(self, run: Run, snapshot: Snapshot) -> bool:
        """Wait for MCP servers before taking a slot. Returns False if the turn was interrupted first."""
        assert snapshot.info is not None, "it comes from a store"
        if self._workplaces.bare and not self._workplaces.hooked:
            return True
        try:
            async with run.interruptible():
                await enter(self._workplaces, snapshot.info.directory, working=True)
        except TimeoutError:
            return False
        return True

    async def _slot(self, run: Run, model: ModelRef) -> Slot | None:
        """Wait for a slot at the model; None if the turn was interrupted first."""
        if not self._limits.crowded(model):
            return await self._limits.slot(model)
        try:
            async with run.interruptible():
                return await self._limits.slot(model)
        except TimeoutError:
            return None

    async def _cooled(self, run: Run, until: int) -> bool:
        """Wait until the model's cool-down ends. Returns False if the turn was interrupted first."""
        try:
            async with run.interruptible():
                await asyncio.sleep(max(0, until - self._clock.now()) / 1000)
        except TimeoutError:
            return False
        return True

    async def _step(self, run: Run, lease: Lease, snapshot: Snapshot, slot: Slot) -> Snapshot:
        assert snapshot.info is not None, "it comes from a store"
        place = await enter(self._workplaces, snapshot.info.directory)
        started, request_id = await self._start(run, lease, snapshot, place)
        if started is None:
            return await self._store.snapshot(lease)
        if started.number == 1 and first_prompt(started.tail):
            self._titles.begin(snapshot.info, place, started.tail, started.message.model_ref)
        if started.message.model_ref != snapshot.model:  # the summary's model has its own slots
            slot.release()
            slot = await self._slot(run, started.message.model_ref) or slot
        draft = Draft(started.message, request_id, self._ids, turn=started.turn)
        scribe = Scribe(
            store=self._store, bus=self._bus, clock=self._clock, group=self._group, run=run, draft=draft
        )
        try:
            job = await self._job(run, place, started, snapshot)
            await self._stream(run, draft, scribe, job)
            slot.release()
            await scribe.close()
        finally:
            slot.release()
            scribe.drop()
        if "experimental.text.complete" in job.hooks.names:
            await complete_rest(job.hooks, draft, hurry=run.interrupted)
        end = draft.end(self._clock.now(), place.effects, last=job.last)
        if started.wanted is not None:
            end = Acceptance(started.wanted, self._ids, self._clock.now(), last=job.last).judged(end)
        if draft.continues and not job.last:
            end = await self._continuation.extended(end, place)
        ended = Ended(lease, started, scribe.complete(end), draft.retry_hint)
        return await self._finish(run, ended, job)

    async def _job(self, run: Run, place: Workplace, started: Started, snapshot: Snapshot) -> Job:
        message, session = started.message, snapshot.info
        assert session is not None, "it comes from a store"
        if message.summary:
            summary = await self._summary(run, place, started, snapshot)
            return Job(request=summary.request, why_not=NOTHING, last=True, summary=summary)
        try:
            rules = await self._standing.rules(place, message.agent, session, above=started.above)
            brief = place.brief(message.agent, rules)
        except InvalidInput as error:  # the agent is gone
            return Job(request=None, why_not=str(error))
        brief = brief.also(started.system)
        run.overhead = brief.tokens
        last = brief.steps is not None and started.number >= brief.steps
        if started.wanted is not None:
            brief = offered(brief, started.wanted, last=last)
        return Job(
            request=_request(run, message, brief),
            last=last,
            hooks=place.hooks,
            room=self._room(run, place, message.model_ref),
            shrinks=place.keeping.auto,
        )

    async def _summary(self, run: Run, place: Workplace, started: Started, snapshot: Snapshot) -> Summary:
        """Prepare the summary request with plugin hooks; an abort interrupts them."""
        assert snapshot.model is not None, "input says which model reads it"
        writer, reader = self._windows(started.message.model_ref), self._windows(snapshot.model)
        try:
            async with run.interruptible():
                return await self._compaction.prepare(started, place, writer, reader)
        except TimeoutError:
            return Summary(None, None)

    async def _start(
        self, run: Run, lease: Lease, snapshot: Snapshot, place: Workplace
    ) -> tuple[Started | None, RequestId]:
        control = snapshot.control
        if run.prompt.since == 0 and (control.summary or control.positions > SHORT_HISTORY):
            told = await self._store.told(lease.session_id)
            run.prompt.open(told.head)
            run.prompt.extend(told.entries, told.shown, since=told.since)
        new = self._new_step(run, place, snapshot)
        started = await self._store.start_step(lease, new)
        if started is not None and not started.message.summary:
            run.prompt.extend(started.tail, started.shown, since=started.position)
        return started, new.request_id

    def _new_step(self, run: Run, place: Workplace, snapshot: Snapshot) -> NewStep:
        assert snapshot.model is not None, "input says which model reads it"
        assert snapshot.info is not None, "it comes from a store"
        if not run.overhead and self._windows(snapshot.model).context:
            _weigh_brief(run, place, snapshot.info)
        model = None if (own := place.summarising(snapshot.model).model) == snapshot.model else own
        # Messages sort by their ids: new ids must follow those before the step, also those of a client whose
        # clock is ahead and that talked to another process.
        self._ids.follow(snapshot.newest, snapshot.last.id if snapshot.last else None)
        told, *before, message_id = self._ids.messages(5)
        return NewStep(
            aside=Aside(before[0], place.reminders) if place.reminds else None,
            message_id=message_id,
            part_id=self._ids.part(),
            request_id=self._ids.request(),
            since=run.prompt.since,
            told=run.prompt.tokens + run.overhead,
            summary=NewSummary(before[2], self._ids.part(), model, self._room(run, place, snapshot.model)),
            tasking=Tasking(
                effect=place.effects.get(TASK, "once"),
                go_on=prompt_text("subtask-done"),
                message_id=before[1],
            ),
            telling=Told(message_id=told, how=place.telling),
            kin=not self._workplaces.bare,
        )

    def _room(self, run: Run, place: Workplace, model: ModelRef) -> int | None:
        """Return the tokens from which on a summary is wanted; None: unknown, or summaries are off. Brief and
        last summary must leave some room, or a summary would be made before every step."""
        room = self._windows(model).room(place.keeping.reserved) if place.keeping.auto else None
        if room is None or run.overhead < room - longest_summary(room):
            return None if room is None else max(room, run.overhead + run.prompt.head + room // 4)
        if model not in self._narrow:
            self._narrow.add(model)
            _log.warning(NARROW, model.provider_id, model.model_id, room, run.overhead)
        return None

    async def _finish(self, run: Run, ended: Ended, job: Job) -> Snapshot:
        """Close the step, or store a backoff until its next try."""
        lease, end, attempt = ended.lease, ended.end, ended.started.attempt
        failure = end.message.error
        wait = pause(failure, attempt, ended.retry_hint, self._rng)
        if wait is None or not isinstance(failure, APIError):
            return await self._close(run, ended, job)
        now = self._clock.now()
        message = end.message
        if rate_limited(failure):
            model = ModelRef(provider_id=message.provider_id, model_id=message.model_id)
            self._limits.cool(model, until=now + wait)
        part = RetryPart(
            id=self._ids.part(),
            session_id=lease.session_id,
            message_id=message.id,
            attempt=attempt,
            error=failure,
            time=RetryTime(created=now),
        )
        retry = Retrying(end=end, part=part, next_at=now + wait)
        return await self._store.retry_step(lease, retry)

    async def _close(self, run: Run, ended: Ended, job: Job) -> Snapshot:
        end = ended.end
        if job.summary is None:
            over = None if end.facts or run.starting or run.left_traces or run.prompt.stale() else self._over
            if end.goes_on is not None:
                over = is_over
            elif over is not None:
                run.clear()  # a wake after this starts a new run
            end = replace(
                end, full=job.is_full(end.message), over=over, minds_todos=not self._workplaces.bare
            )
            return await self._store.finish_step(ended.lease, end)
        done = self._compaction.done(end, ended.started, job.summary)
        snapshot = await self._store.finish_summary(ended.lease, done)
        run.prompt = Prompt()
        return snapshot

    async def prune(self, run: Run, lease: Lease, directory: str) -> None:
        """Prune old outputs from later requests, if there are enough of them."""
        stale = run.prompt.stale()
        if not stale or not (await enter(self._workplaces, directory)).keeping.prune:
            return
        for start in range(0, len(stale), PRUNED_AT_ONCE):
            await self._store.prune(lease, stale[start : start + PRUNED_AT_ONCE])
        run.prompt = Prompt()

    async def _stream(self, run: Run, draft: Draft, scribe: Scribe, job: Job) -> None:
        """Stream the answer into the draft; a provider's failure becomes the draft's."""
        if job.request is None:
            draft.abort() if run.interrupted else draft.fail(unknown(job.why_not))
            return
        try:
            async with run.interruptible():
                request = (
                    await shaped(job.hooks, draft.message, job.request) if job.hooks.names else job.request
                )
                await self._read(draft, scribe, request, job.hooks)
        except (Exception, asyncio.CancelledError) as error:  # the edge of a provider
            if told_to_stop():
                raise
            draft.fail(_failure(error))
        if job.summary is not None and not draft.spoke:
            draft.fail_unless_failed(unknown(EMPTY))
        if run.interrupted:
            draft.abort()

    async def _read(self, draft: Draft, scribe: Scribe, request: Request, hooks: Hooks) -> None:
        completes = "experimental.text.complete" in hooks.names
        with self._watch.model(request, draft.message.session_id, draft.message.agent) as seen:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if completes:
                        await complete(hooks, draft, event)
                    change = draft.take(event, self._clock.now())
                    if change is not None:
                        scribe.take(change)
            seen.ended(*draft.heard, draft.told)


def _weigh_brief(run: Run, place: Workplace, session: Session) -> None:
    """Estimate the tokens of the brief before a run's first step, without the rules of ancestors (which may
    hide tools); later steps use those of the step before."""
    agent = session.agent or ""
    with suppress(InvalidInput):  # the step reports it
        run.overhead = place.brief(agent, place.rules(agent, session)).tokens


def _request(run: Run, message: AssistantMessage, brief: Brief) -> Request:
    return Request(
        model=message.model_ref,
        messages=run.prompt.messages,
        tools=brief.specs,
        system=brief.system,
        options=brief.options,
        tool_choice=brief.tool_choice,
    )


def _failure(error: BaseException) -> Failure:
    """Convert an exception of the model to the step's failure."""
    match error:
        case ModelError():
            return unknown(str(error))
        case TimeoutError():
            return unknown(f"The model timed out: {error}")
        case _:
            _log.warning("action=stream the model failed", exc_info=error)
            return unknown(f"The model failed: {type(error).__name__}: {error}")
