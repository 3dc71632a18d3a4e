"""A model that fails: the turn ends with an error that says so, nothing hangs, and the next turn is fine."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncagents.domain.call.call import NEVER_RAN
from asyncagents.domain.conversation.failure import (
    APIError,
    ContentFilterError,
    Failure,
    UnknownError,
    api_error,
)
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolFailed
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.event import PartUpdated, SessionError, SessionIdle, SessionStatus
from asyncagents.errors import ModelError
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    ModelTurn,
    StreamError,
    TextBlock,
    TextDelta,
    UserTurn,
)
from asyncagents.llm.scripted import ScriptedModel, ScriptStep, call, end, fail, say
from tests.support.runtime import answer_of, open_stage
from tests.support.tool import Gate


class Raises(ScriptedModel):
    """Says a word, then raises; after that it is well."""

    def __init__(self, error: BaseException) -> None:
        super().__init__({"go": [[say("I beg")]], "next": [[say("Here.")]]})
        self._error: BaseException | None = error

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in super().stream(request):
            yield event
            if isinstance(event, TextDelta) and self._error is not None:
                error, self._error = self._error, None
                raise error


@pytest.mark.spec("C-01")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModelError("the key is not valid"), "the key is not valid"),
        (ConnectionError("reset by peer"), "The model failed: ConnectionError: reset by peer"),
        (TimeoutError("no answer"), "The model timed out: no answer"),
        (KeyError("choices"), "The model failed: KeyError: 'choices'"),
        (asyncio.CancelledError(), "The model failed: CancelledError: "),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_model_that_raises_ends_the_turn_with_its_error(
    tmp_path: Path, error: BaseException, message: str
) -> None:
    async with open_stage(tmp_path, Raises(error)) as at:
        answer = await at.prompt("go")
        await at.listener.until(SessionIdle)
        again = await at.prompt("next")

    step = answer_of(answer)
    assert answer.text == "I beg"
    assert step.finish == "error"
    assert again.text == "Here."
    assert isinstance(step.error, UnknownError)
    assert step.error.data.message == message
    assert [event.error for event in at.listener.of(SessionError)] == [step.error]
    assert [event.status for event in at.listener.of(SessionStatus)] == [Busy(), Idle()]
    assert at.request_messages() == [UserTurn("go"), ModelTurn((TextBlock("I beg"),)), UserTurn("next")]


@pytest.mark.spec("C-01")
@pytest.mark.parametrize(
    ("ending", "finish", "error"),
    [
        pytest.param((fail("overloaded"),), "error", APIError, id="an error event"),
        pytest.param((end("content-filter"),), "content-filter", ContentFilterError, id="content-filter"),
        pytest.param((end("length"),), "length", None, id="length"),
    ],
)
async def test_a_step_that_ended_badly_stops_the_turn_and_its_calls_never_run(
    tmp_path: Path, ending: ScriptStep, finish: str, error: type[Failure] | None
) -> None:
    gate = Gate("gate")
    script = {"go": [[say("I beg"), call("gate"), *ending]], "next": [[say("Here.")]]}
    async with open_stage(tmp_path, script, tools=[gate.tool]) as at:
        answer = await at.prompt("go")
        (state,) = await at.states()
        again = await at.prompt("next")

    step = answer_of(answer)
    assert step.finish == finish
    assert (type(step.error) if step.error else None) is error
    assert isinstance(state, ToolFailed)
    assert state.error == NEVER_RAN
    assert gate.runs == 0
    assert again.text == "Here."
    assert len(at.model.requests) == 2


class Stumbles(ScriptedModel):
    """Says a word, and fails when it is let go."""

    def __init__(self) -> None:
        super().__init__({"go": [[say("I beg")]], "next": [[say("Here.")]]})
        self.go = asyncio.Event()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in super().stream(request):
            yield event
            if isinstance(event, TextDelta) and not self.go.is_set():
                await self.go.wait()
                yield StreamError(api_error("overloaded", is_retryable=False))
                return


@pytest.mark.spec("C-01", "S-12")
async def test_input_that_waits_behind_an_error_gets_a_turn_of_its_own(tmp_path: Path) -> None:
    model = Stumbles()
    async with open_stage(tmp_path, model) as at:
        first = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I beg")
        second = asyncio.ensure_future(at.prompt("next"))
        await at.listener.until(PartUpdated, lambda event: getattr(event.part, "text", "") == "next")
        model.go.set()
        failed, well = await first, await second

    assert isinstance(answer_of(failed).error, APIError)
    assert well.text == "Here."
    assert answer_of(well).error is None


@pytest.mark.spec("C-01")
async def test_an_error_in_a_later_step_keeps_the_earlier_texts(tmp_path: Path) -> None:
    gate = Gate("gate")
    gate.go.set()
    script = {"go": [[say("I look."), call("gate")], [say("I s"), fail("overloaded")]]}
    async with open_stage(tmp_path, script, tools=[gate.tool]) as at:
        await at.prompt("go")
        _, look, cut = await at.messages()

    assert look.text == "I look."
    assert answer_of(look).error is None
    assert cut.text == "I s"
    assert (answer_of(cut).error is not None) is True
    assert isinstance(cut.info, AssistantMessage)
