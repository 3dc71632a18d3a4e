"""One step: ask the model, keep and publish what it says as it says it, and write down how it ended."""

import asyncio
import logging
from contextlib import aclosing

from asyncagents.domain.call import Effect
from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.failure import Failure, unknown
from asyncagents.domain.id import Ids
from asyncagents.domain.message import ModelRef
from asyncagents.domain.port import Clock
from asyncagents.engine.bus import Bus
from asyncagents.engine.draft import Draft
from asyncagents.engine.run import Run, told_to_stop
from asyncagents.engine.scribe import Scribe
from asyncagents.engine.tool import AnyTool
from asyncagents.errors import ModelError
from asyncagents.llm.model import Model, Request
from asyncagents.store.store import Store
from asyncagents.store.verb.step import NewStep, Started

SHORT_HISTORY = 32
"""Up to here a history is read with the first step; longer ones beforehand, beside the writer."""

_log = logging.getLogger(__name__)


class Turn:
    def __init__(  # noqa: PLR0913  all that a step touches
        self,
        *,
        store: Store,
        model: Model,
        tools: tuple[AnyTool, ...],
        bus: Bus,
        clock: Clock,
        ids: Ids,
        group: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._model = model
        self._specs = tuple(tool.spec() for tool in tools)
        self._effects: dict[str, Effect] = {tool.name: tool.effect for tool in tools}
        self._bus = bus
        self._clock = clock
        self._ids = ids
        self._group = group

    async def step(self, run: Run, lease: Lease, snapshot: Snapshot) -> Snapshot:
        """Returns what is known after the step; a step that was cancelled before it began changes nothing."""
        if run.prompt.since == 0 and snapshot.control.positions > SHORT_HISTORY:
            told = await self._store.told(lease.session_id)
            run.prompt.extend(told.entries, told.shown, since=told.since)
        new = NewStep(
            message_id=self._ids.message(),
            part_id=self._ids.part(),
            request_id=self._ids.request(),
            since=run.prompt.since,
        )
        started = await self._store.start_step(lease, new)
        if started is None:
            return await self._store.snapshot(lease)
        run.prompt.extend(started.tail, started.shown, since=started.position)
        draft = Draft(started.message, new.request_id, self._ids, turn=started.turn)
        scribe = Scribe(
            store=self._store, bus=self._bus, clock=self._clock, group=self._group, run=run, draft=draft
        )
        try:
            await self._stream(run, draft, scribe, self._request(run, started))
            await scribe.close()
        finally:
            scribe.drop()
        end = scribe.complete(draft.end(self._clock.now(), self._effects))
        return await self._store.finish_step(lease, end)

    def _request(self, run: Run, started: Started) -> Request:
        message = started.message
        model = ModelRef(provider_id=message.provider_id, model_id=message.model_id, variant=message.variant)
        return Request(model=model, messages=run.prompt.messages, tools=self._specs)

    async def _stream(self, run: Run, draft: Draft, scribe: Scribe, request: Request) -> None:
        """Whatever the provider does ends in the draft."""
        try:
            async with run.interruptible(), aclosing(self._model.stream(request)) as events:
                async for event in events:
                    change = draft.take(event, self._clock.now())
                    if change is not None:
                        scribe.take(change)
        except (Exception, asyncio.CancelledError) as error:  # the edge of a provider
            if told_to_stop():
                raise
            draft.fail(_failure(error))
        if run.interrupted:
            draft.abort()


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
