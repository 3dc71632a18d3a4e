"""One step: ask the model, keep and publish what it says as it says it, and write down how it ended."""

import logging
from contextlib import aclosing

from asyncagents.domain.call import Effect
from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.event import PartDelta
from asyncagents.domain.failure import unknown
from asyncagents.domain.id import Ids
from asyncagents.domain.message import ModelRef
from asyncagents.domain.port import Clock
from asyncagents.engine.bus import Bus
from asyncagents.engine.draft import Draft, NewPart, NewText
from asyncagents.engine.run import Run
from asyncagents.engine.tool import AnyTool
from asyncagents.errors import ModelError, StoreError
from asyncagents.llm.model import Model, Request
from asyncagents.store.store import Store
from asyncagents.store.verb.step import NewStep, Started

FLUSH_MS = 1000
SHORT_HISTORY = 32
"""Up to here a history is read with the first step; longer ones beforehand, beside the writer."""

_log = logging.getLogger(__name__)


class Turn:
    def __init__(
        self, *, store: Store, model: Model, tools: tuple[AnyTool, ...], bus: Bus, clock: Clock, ids: Ids
    ) -> None:
        self._store = store
        self._model = model
        self._specs = tuple(tool.spec() for tool in tools)
        self._effects: dict[str, Effect] = {tool.name: tool.effect for tool in tools}
        self._bus = bus
        self._clock = clock
        self._ids = ids

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
        await self._stream(run, lease, draft, self._request(run, started))
        return await self._store.finish_step(lease, draft.end(self._clock.now(), self._effects))

    def _request(self, run: Run, started: Started) -> Request:
        message = started.message
        model = ModelRef(provider_id=message.provider_id, model_id=message.model_id, variant=message.variant)
        return Request(model=model, messages=run.prompt.messages, tools=self._specs)

    async def _stream(self, run: Run, lease: Lease, draft: Draft, request: Request) -> None:
        """Whatever the provider does ends in the draft; only the store's errors leave here."""
        scope = run.streaming()
        try:
            async with scope, aclosing(self._model.stream(request)) as events:
                flushed = self._clock.now()
                async for event in events:
                    now = self._clock.now()
                    change = draft.take(event, now)
                    if change is not None:
                        await self._show(lease, draft, change)
                    if now - flushed >= FLUSH_MS:
                        flushed = now
                        await self._flush(lease, draft)
        except StoreError:
            raise
        except ModelError as error:
            draft.fail(unknown(str(error)))
        except TimeoutError as error:
            draft.abort() if scope.expired() else draft.fail(unknown(f"The model timed out: {error}"))
        except Exception as error:  # noqa: BLE001  the edge of a provider: its failure is the step's
            _log.exception("the model failed in session %s", lease.session_id)
            draft.fail(unknown(f"The model failed: {type(error).__name__}: {error}"))

    async def _show(self, lease: Lease, draft: Draft, change: NewPart | NewText) -> None:
        match change:
            case NewPart(part):
                await self._store.write_parts(lease, (part,), publish=True)
            case NewText(part_id, text, offset):
                self._bus.publish(
                    PartDelta(
                        session_id=lease.session_id,
                        message_id=draft.message.id,
                        part_id=part_id,
                        field="text",
                        delta=text,
                        offset=offset,
                    )
                )

    async def _flush(self, lease: Lease, draft: Draft) -> None:
        if parts := draft.unsaved():
            await self._store.write_parts(lease, parts, publish=False)
