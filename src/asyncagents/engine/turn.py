"""One step: ask the model, keep and publish what it says as it says it, and write down how it ended."""

import asyncio
import logging
from contextlib import aclosing

from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.failure import APIError, Failure, unknown
from asyncagents.domain.id import Ids, RequestId
from asyncagents.domain.message import AssistantMessage, ModelRef
from asyncagents.domain.part import RetryPart, RetryTime
from asyncagents.domain.port import Clock, Rng
from asyncagents.domain.session import Session
from asyncagents.engine.bus import Bus
from asyncagents.engine.draft import Draft
from asyncagents.engine.hook import Hooks
from asyncagents.engine.hooked import complete, complete_rest, shaped
from asyncagents.engine.permission import Standing
from asyncagents.engine.retry import PATIENCE_MS, pause, rate_limited
from asyncagents.engine.run import Run, told_to_stop
from asyncagents.engine.scribe import Scribe
from asyncagents.engine.title import Titles
from asyncagents.engine.workplace import Brief, Workplace, Workplaces, enter
from asyncagents.errors import InvalidInput, ModelError
from asyncagents.llm.limits import Limits, Slot
from asyncagents.llm.model import Model, Request
from asyncagents.store.store import Store
from asyncagents.store.verb.remind import Aside
from asyncagents.store.verb.step import NewStep, Retrying, Started, StepEnd

SHORT_HISTORY = 32
"""Up to here a history is read with the first step; longer ones beforehand, beside the writer."""

COOLING = "The provider limits how often this model is asked; it is asked again soon."

_log = logging.getLogger(__name__)


class Turn:
    def __init__(  # noqa: PLR0913  all that a step touches
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
        titles: Titles,
        group: asyncio.TaskGroup,
    ) -> None:
        self._titles = titles
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
        """Returns what is known after the step; a step that was cancelled before it began changes nothing."""
        assert snapshot.model is not None, "input says which model reads it"
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

    async def _slot(self, run: Run, model: ModelRef) -> Slot | None:
        """A place at the provider, in order; None: the turn was interrupted first."""
        if not self._limits.crowded(model):
            return await self._limits.slot(model)
        try:
            async with run.interruptible():
                return await self._limits.slot(model)
        except TimeoutError:
            return None

    async def _cooled(self, run: Run, until: int) -> bool:
        """False: the turn was interrupted first."""
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
        if started.turn == started.number == 1:
            self._titles.begin(snapshot.info, place, started.tail, started.message.model_ref)
        draft = Draft(started.message, request_id, self._ids, turn=started.turn)
        scribe = Scribe(
            store=self._store, bus=self._bus, clock=self._clock, group=self._group, run=run, draft=draft
        )
        brief = await self._brief(place, started.message, snapshot.info, draft)
        try:
            if brief is not None:
                await self._stream(run, draft, scribe, _request(run, started.message, brief), place.hooks)
            slot.release()
            await scribe.close()
        finally:
            scribe.drop()
        if "experimental.text.complete" in place.hooks.names:
            await complete_rest(place.hooks, draft, hurry=run.interrupted)
        last = brief is not None and brief.steps is not None and started.number >= brief.steps
        end = scribe.complete(draft.end(self._clock.now(), place.effects, last=last))
        return await self._finish(lease, end, draft, started.attempt)

    async def _brief(
        self, place: Workplace, message: AssistantMessage, session: Session, draft: Draft
    ) -> Brief | None:
        """None: the agent is gone, and the step says so."""
        try:
            return place.brief(message.agent, await self._standing.rules(place, message.agent, session))
        except InvalidInput as error:
            draft.fail(unknown(str(error)))
            return None

    async def _start(
        self, run: Run, lease: Lease, snapshot: Snapshot, place: Workplace
    ) -> tuple[Started | None, RequestId]:
        if run.prompt.since == 0 and snapshot.control.positions > SHORT_HISTORY:
            told = await self._store.told(lease.session_id)
            run.prompt.extend(told.entries, told.shown, since=told.since)
        aside = Aside(self._ids.message(), place.reminders) if place.reminds else None
        new = NewStep(
            aside=aside,
            message_id=self._ids.message(),
            part_id=self._ids.part(),
            request_id=self._ids.request(),
            since=run.prompt.since,
        )
        started = await self._store.start_step(lease, new)
        if started is not None:
            run.prompt.extend(started.tail, started.shown, since=started.position)
        return started, new.request_id

    async def _finish(self, lease: Lease, end: StepEnd, draft: Draft, attempt: int) -> Snapshot:
        """Close the step, or let it wait for its next try."""
        failure = end.message.error
        wait = pause(failure, attempt, draft.retry_after, self._rng)
        if wait is None or not isinstance(failure, APIError):
            return await self._store.finish_step(lease, end)
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

    async def _stream(  # noqa: PLR0917  what a stream goes through
        self, run: Run, draft: Draft, scribe: Scribe, request: Request, hooks: Hooks
    ) -> None:
        """Whatever the provider does ends in the draft."""
        try:
            async with run.interruptible():
                if hooks.names:
                    request = await shaped(hooks, draft.message, request)
                await self._read(draft, scribe, request, hooks)
        except (Exception, asyncio.CancelledError) as error:  # the edge of a provider
            if told_to_stop():
                raise
            draft.fail(_failure(error))
        if run.interrupted:
            draft.abort()

    async def _read(self, draft: Draft, scribe: Scribe, request: Request, hooks: Hooks) -> None:
        completes = "experimental.text.complete" in hooks.names
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                if completes:
                    await complete(hooks, draft, event)
                change = draft.take(event, self._clock.now())
                if change is not None:
                    scribe.take(change)


def _request(run: Run, message: AssistantMessage, brief: Brief) -> Request:
    return Request(
        model=message.model_ref,
        messages=run.prompt.messages,
        tools=brief.specs,
        system=brief.system,
        options=brief.options,
    )


def _failure(error: BaseException) -> Failure:
    """A provider's failure is the step's."""
    match error:
        case ModelError():
            return unknown(str(error))
        case TimeoutError():
            return unknown(f"The model timed out: {error}")
        case _:
            _log.warning("the model failed", exc_info=error)
            return unknown(f"The model failed: {type(error).__name__}: {error}")
