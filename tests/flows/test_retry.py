"""A request that fails for now: it is tried again, at most five times, and its wait is a row, not a task."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import APIError, MessageAbortedError
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import RetryPart, TextPart
from asyncagents.domain.conversation.status import Busy, Idle, Retry
from asyncagents.domain.event import PartUpdated, SessionError, SessionIdle, SessionStatus
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.step.draft import NO_FINISH
from asyncagents.engine.step.step import COOLING
from asyncagents.llm.model import ChatRequest, Finish, ModelEvent, ModelTurn, TextBlock, UserTurn
from asyncagents.llm.scripted import ScriptedModel, ScriptStep, end, fail, say
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from tests.support.runtime import EventListener, answer_of, open_sqlite_runtime, open_stage
from tests.support.wait import PATIENCE, wait_until

HOUR = 3600.0


BUSY: ScriptStep = (fail("overloaded", retryable=True, retry_after=0.0),)
"""Overloaded, for a moment."""


class Flaky(ScriptedModel):
    """Plays its bad steps first, one a request, whoever asks; after that it is well."""

    def __init__(self, *bad: ScriptStep) -> None:
        super().__init__({"go": [[say("Here.")]]})
        self._bad = list(bad)

    def _step(self, request: ChatRequest) -> ScriptStep:
        return self._bad.pop(0) if self._bad else super()._step(request)


def retries(entry: MessageWithParts) -> list[int]:
    return [part.attempt for part in entry.parts if isinstance(part, RetryPart)]


@pytest.mark.spec("C-05", "S-04")
async def test_a_request_that_fails_for_now_is_tried_again_under_the_same_message(tmp_path: Path) -> None:
    async with open_stage(tmp_path, Flaky(BUSY, BUSY)) as at:
        answer = await at.prompt("go")
        await at.listener.until(SessionIdle)
        told = await at.messages()

    assert answer.text == "Here."
    assert answer_of(answer).finish == "stop"
    assert retries(answer) == [1, 2]
    assert len(told) == 2
    assert at.listener.of(SessionError) == []
    statuses = [event.status for event in at.listener.of(SessionStatus)]
    kinds = [type(status) for status in statuses]
    assert kinds == [Busy, Retry, Busy, Retry, Busy, Idle]
    waits = [(s.attempt, s.message) for s in statuses if isinstance(s, Retry)]
    assert waits == [(1, "overloaded"), (2, "overloaded")]
    assert [list(request.messages) for request in at.model.requests] == [[UserTurn("go")]] * 3


@pytest.mark.spec("C-05", "C-01")
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(BUSY, "overloaded", id="overloaded"),
        pytest.param(
            (fail("slow down", retryable=True, retry_after=0.0, status=429),), "slow down", id="429"
        ),
    ],
)
async def test_after_five_retries_the_failure_is_the_answer(
    tmp_path: Path, bad: ScriptStep, message: str
) -> None:
    async with open_stage(tmp_path, Flaky(*[bad] * 9)) as at:
        answer = await at.prompt("go")
        await at.listener.until(SessionIdle)

    error = answer_of(answer).error
    assert isinstance(error, APIError)
    assert error.data.message == message
    assert len(at.model.requests) == 6
    assert retries(answer) == [1, 2, 3, 4, 5]
    assert [event.error for event in at.listener.of(SessionError)] == [error]


@pytest.mark.spec("C-05")
async def test_a_permanent_failure_is_not_tried_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, Flaky((fail("no such model"),))) as at:
        answer = await at.prompt("go")
    assert len(at.model.requests) == 1
    assert retries(answer) == []
    assert answer_of(answer).finish == "error"


@pytest.mark.spec("C-05", "C-01")
async def test_a_step_that_broke_off_is_stored_as_failed_and_hidden_from_the_model(tmp_path: Path) -> None:
    broken = (say("I beg"), fail("reset by peer", retryable=True, retry_after=0.0))
    async with open_stage(tmp_path, Flaky(broken)) as at:
        answer = await at.prompt("go")
        _, cut, whole = await at.messages()
        await at.prompt("next")

    assert cut.text == "I beg"
    assert whole.text == "Here."
    assert answer.info.id == whole.info.id
    assert isinstance(answer_of(cut).error, APIError)
    assert retries(cut) == [1]
    assert retries(whole) == []
    assert at.request_messages() == [UserTurn("go"), ModelTurn((TextBlock("Here."),)), UserTurn("next")]


@pytest.mark.spec("C-01", "C-05")
@pytest.mark.parametrize("finish", [None, "unknown", "error"])
async def test_a_stream_without_a_finish_reason_waits_before_it_is_tried_again(
    tmp_path: Path, finish: Finish | None
) -> None:
    async with open_stage(tmp_path, ScriptedModel({}, otherwise=(end(finish),))) as at:
        await at.runtime.send(at.session_id, "go")
        status = await at.listener.until_status(Retry)
        await at.abort()
    assert isinstance(status, Retry)
    assert status.attempt == 1
    assert len(at.model.requests) == 1
    assert finish == "error" or status.message == NO_FINISH


@pytest.mark.spec("C-05", "C-10")
@pytest.mark.parametrize("seconds", [4.0, HOUR], ids=["in a run", "as a row"])
async def test_an_abort_ends_the_wait(tmp_path: Path, seconds: float) -> None:
    slow = (fail("overloaded", retryable=True, retry_after=seconds),)
    async with open_stage(tmp_path, Flaky(slow)) as at:
        asked = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_status(Retry)
        assert await at.abort()
        answer = await asked
        again = await at.prompt("go")

    assert isinstance(answer_of(answer).error, MessageAbortedError)
    assert answer_of(answer).time.completed
    assert again.text == "Here."
    assert len(at.model.requests) == 2


@pytest.mark.spec("C-05")
async def test_a_long_wait_is_a_row_that_a_later_process_takes_up(tmp_path: Path) -> None:
    model = Flaky((fail("come back", retryable=True, retry_after=HOUR),))
    clock = FakeClock(1_000_000)
    async with open_sqlite_runtime(tmp_path, Setup(model=model), clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.send(session.id, "go", key="k1")
        status = await _until_retry(runtime, session.id)
        await wait_until(lambda: not runtime.live)  # the run ends by itself
    assert status.next >= clock.now() + HOUR * 1000

    async with open_sqlite_runtime(tmp_path, Setup(model=model), clock=clock) as runtime:
        assert await runtime.status(session.id) == status
        assert runtime.live == 0
        assert len(model.requests) == 1

    clock.advance(int(HOUR * 1000 * 1.2))
    async with open_sqlite_runtime(tmp_path, Setup(model=model), clock=clock) as runtime:
        async with asyncio.timeout(PATIENCE):
            answer = await runtime.prompt(session.id, "go", key="k1")
    assert answer.text == "Here."
    assert len(model.requests) == 2
    assert retries(answer) == [1]


async def _until_retry(runtime: Runtime, session_id: SessionId) -> Retry:
    async with asyncio.timeout(PATIENCE), runtime.events(session_id) as events:
        status = await runtime.status(session_id)
        while not isinstance(status, Retry):
            event = await anext(events)
            status = event.status if isinstance(event, SessionStatus) else status
    return status


@pytest.mark.spec("C-05", "S-12")
async def test_input_that_comes_during_the_wait_is_queued_and_answered_with_it(tmp_path: Path) -> None:
    model = Flaky((fail("come back", retryable=True, retry_after=1.0),))
    async with open_stage(tmp_path, model) as at:
        first = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_status(Retry)
        second = asyncio.ensure_future(at.prompt("and more"))
        one, two = await first, await second
        told = await at.messages()

    assert one.info.id == two.info.id
    assert at.request_messages() == [UserTurn("go"), UserTurn("and more")]
    assert len(model.requests) == 2
    given_up = answer_of(told[1])
    assert (given_up.error is not None) is True
    assert (given_up.time.completed is not None) is True


@pytest.mark.spec("C-05")
async def test_a_rate_limit_holds_back_every_session_of_that_model(tmp_path: Path) -> None:
    model = Flaky((fail("slow down", retryable=True, retry_after=HOUR, status=429),))
    async with open_stage(tmp_path, model) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_status(Retry)
        other = await at.runtime.create_session(directory=tmp_path)
        await at.runtime.send(other.id, "go")
        held = await at.listener.until(
            SessionStatus, lambda e: e.session_id == other.id and isinstance(e.status, Retry)
        )
        asked = len(model.requests)
        await at.runtime.abort(other.id)
        await at.abort()
    assert isinstance(held.status, Retry)
    assert held.status.message == COOLING
    assert asked == 1


class Crowd(ScriptedModel):
    """Counts how many are being answered at once, and in which order they began."""

    def __init__(self) -> None:
        super().__init__({})
        self.now = self.most = 0
        self.order: list[str] = []

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        first = request.messages[0]
        assert isinstance(first, UserTurn)
        self.order.append(first.text)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            async for event in super().stream(request):
                await asyncio.sleep(0)
                yield event
        finally:
            self.now -= 1


def two_at_once(model: ModelRef) -> int:
    return 2


async def test_requests_to_a_model_keep_to_its_limit_and_their_order(tmp_path: Path) -> None:
    model = Crowd()
    async with open_sqlite_runtime(tmp_path, Setup(model=model, concurrency=two_at_once)) as runtime:
        sessions = [await runtime.create_session(directory=tmp_path) for _ in range(8)]
        names = [f"{number}" for number in range(8)]
        answers = await asyncio.gather(*map(runtime.prompt, [s.id for s in sessions], names))
    assert model.most == 2
    assert [answer.text for answer in answers] == ["ok"] * 8
    assert model.order == names


class Slow(ScriptedModel):
    """Says nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__({})
        self.go = asyncio.Event()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        await self.go.wait()
        async for event in super().stream(request):
            yield event


async def test_an_abort_removes_a_request_from_the_queue_of_its_model(tmp_path: Path) -> None:
    model = Slow()
    async with open_sqlite_runtime(tmp_path, Setup(model=model, concurrency=lambda ref: 1)) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            listener = EventListener(subscription)
            first = await runtime.create_session(directory=tmp_path)
            second = await runtime.create_session(directory=tmp_path)
            one = asyncio.ensure_future(runtime.prompt(first.id, "one"))
            await listener.until(PartUpdated, lambda event: not isinstance(event.part, TextPart))
            two = asyncio.ensure_future(runtime.prompt(second.id, "two"))
            await listener.until(PartUpdated, lambda event: event.session_id == second.id)
            assert await runtime.abort(second.id)
            assert isinstance(answer_of(await two).error, MessageAbortedError)
            model.go.set()
            assert (await one).text == "ok"
            assert (await runtime.prompt(second.id, "three")).text == "ok"


async def test_an_abort_from_another_runtime_removes_a_request_from_the_queue(tmp_path: Path) -> None:
    model = Slow()
    async with (
        open_sqlite_runtime(tmp_path, Setup(model=model, concurrency=lambda ref: 1)) as runtime,
        open_sqlite_runtime(tmp_path, Setup(model=ScriptedModel({}), serve=False)) as client,
    ):
        with inside(runtime).bus.subscribe() as subscription:
            listener = EventListener(subscription)
            first = await runtime.create_session(directory=tmp_path)
            second = await runtime.create_session(directory=tmp_path)
            one = asyncio.ensure_future(runtime.prompt(first.id, "one"))
            await listener.until(PartUpdated, lambda event: not isinstance(event.part, TextPart))
            two = asyncio.ensure_future(runtime.prompt(second.id, "two"))
            await listener.until(PartUpdated, lambda event: event.session_id == second.id)
            await client.abort(second.id)
            async with asyncio.timeout(PATIENCE):
                assert isinstance(answer_of(await two).error, MessageAbortedError)
            model.go.set()
            assert (await one).text == "ok"
