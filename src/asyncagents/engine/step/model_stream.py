"""Stream the answer of a model into the draft of a step."""

import asyncio
import logging
from contextlib import aclosing

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.failure import Failure, unknown_error
from asyncagents.engine.observer import Observer
from asyncagents.engine.run import Run, is_being_cancelled
from asyncagents.engine.step.compaction import EMPTY_SUMMARY
from asyncagents.engine.step.draft import Draft
from asyncagents.engine.step.hooks import transform_request, transform_text
from asyncagents.engine.step.step_request import StepRequest
from asyncagents.engine.step.stream_writer import StreamWriter
from asyncagents.engine.workplace.hooks import Hooks
from asyncagents.errors import ModelError
from asyncagents.llm.model import ChatRequest, Model

_log = logging.getLogger(__name__)


class ModelStreams:
    def __init__(self, model: Model, *, clock: Clock, observer: Observer) -> None:
        self._model = model
        self._clock = clock
        self._observer = observer

    async def read(self, run: Run, draft: Draft, writer: StreamWriter, step_request: StepRequest) -> None:
        """Stream the answer into the draft; a provider's failure becomes the draft's."""
        if step_request.request is None:
            draft.abort() if run.interrupted else draft.fail(unknown_error(step_request.why_not))
            return
        try:
            async with run.interruptible():
                request = (
                    await transform_request(step_request.hooks, draft.message, step_request.request)
                    if step_request.hooks.names
                    else step_request.request
                )
                await self._read_stream(draft, writer, request, step_request.hooks)
        except (Exception, asyncio.CancelledError) as error:  # the edge of a provider
            if is_being_cancelled():
                raise
            draft.fail(_as_failure(error))
        if step_request.summary is not None and not draft.has_text:
            draft.fail_unless_failed(unknown_error(EMPTY_SUMMARY))
        if run.interrupted:
            draft.abort()

    async def _read_stream(
        self, draft: Draft, writer: StreamWriter, request: ChatRequest, hooks: Hooks
    ) -> None:
        completes = "experimental.text.complete" in hooks.names
        with self._observer.model_span(request, draft.message.session_id, draft.message.agent) as seen:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if completes:
                        await transform_text(hooks, draft, event)
                    change = draft.apply_event(event, self._clock.now())
                    if change is not None:
                        writer.add_change(change)
            seen.record_outcome(*draft.outcome, draft.as_message)


def _as_failure(error: BaseException) -> Failure:
    """Convert an exception of the model to the step's failure."""
    match error:
        case ModelError():
            return unknown_error(str(error))
        case TimeoutError():
            return unknown_error(f"The model timed out: {error}")
        case _:
            _log.warning("action=stream the model failed", exc_info=error)
            return unknown_error(f"The model failed: {type(error).__name__}: {error}")
