"""Several runtimes on one directory: each session is run by one of them at a time, and all see everything."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.failure import aborted_error
from asyncagents.domain.conversation.status import Busy, Idle, WaitingAsync
from asyncagents.domain.event import PartUpdated, SessionIdle, SessionStatus
from asyncagents.domain.id import AHEAD_MS, Ids, SessionId
from asyncagents.engine.tool import Tool, ToolContext
from asyncagents.llm.model import ChatRequest, ModelEvent, UserTurn
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from tests.support.runtime import (
    EventListener,
    answer_of,
    assert_requests_only_grow,
    open_runtime,
    open_stage,
)
from tests.support.tool import Gate, NoArguments, build_pending_tool
from tests.support.wait import PATIENCE


@pytest.mark.spec("X-07")
async def test_a_runtime_that_does_not_serve_gets_the_answer_from_one_that_does(tmp_path: Path) -> None:
    model = ScriptedModel({"hello": [[say("Hi.")]]})
    async with open_stage(tmp_path, {}, serve=False) as at:
        prompt = asyncio.ensure_future(at.prompt("hello"))
        await at.listener.until_status(Busy)
        async with open_runtime(tmp_path, model=model):
            answer = await prompt
            await at.listener.until(SessionIdle)

    assert answer.text == "Hi."
    assert at.model.requests == []
    assert len(model.requests) == 1
    statuses = [event.status for event in at.listener.of(SessionStatus)]
    assert [status for status, _ in groupby(statuses)] == [Busy(), Idle()]


async def test_a_prompt_without_a_serving_runtime_is_answered_by_the_next_one(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}, serve=False) as at:
        await at.runtime.send(at.session_id, "hello", key="k")
        assert await at.status() == Busy()
    model = ScriptedModel({"hello": [[say("Hi.")]]})
    async with open_runtime(tmp_path, model=model) as runtime, asyncio.timeout(PATIENCE):
        answer = await runtime.prompt(at.session_id, "hello", key="k")

    assert answer.text == "Hi."
    assert len(model.requests) == 1
    assert at.model.requests == []


async def test_answers_and_results_reach_a_session_from_another_runtime(tmp_path: Path) -> None:
    script = {"ship": [[call("deploy")], [say("Shipped.")]]}
    async with (
        open_stage(tmp_path, script, tools=[build_pending_tool("deploy")]) as at,
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as other,
    ):
        await at.prompt("ship")
        waiting = await other.status(at.session_id)
        assert isinstance(waiting, WaitingAsync)
        await other.complete(waiting.pending_id, "v2")
        await at.listener.until(SessionIdle)
        answer = (await other.messages(at.session_id))[-1]

    assert answer.text == "Shipped."


@pytest.mark.spec("C-10")
async def test_an_abort_from_another_runtime_ends_the_turn(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with (
        open_stage(tmp_path, {"go": [[call("gate")]]}, tools=[gate.tool]) as at,
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as other,
    ):
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        assert await other.abort(at.session_id)
        answer = await prompt

    assert gate.ended.is_set()
    assert answer_of(answer).error == aborted_error()


@pytest.mark.spec("C-10")
async def test_an_abort_from_another_runtime_that_serves_ends_the_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[say("I beg"), pause(3600)]]}) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I beg")
        async with open_runtime(tmp_path, model=ScriptedModel({})) as other:
            assert await other.abort(at.session_id)
        answer = await prompt

    assert answer_of(answer).error == aborted_error()


async def test_events_of_one_runtime_reach_another(tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path, {"hello": [[say("Hi.")]]}) as at,
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as other,
    ):
        with inside(other).bus.subscribe() as subscription:
            listener = EventListener(subscription)
            answer = await at.prompt("hello")
            await listener.until(SessionIdle, lambda event: event.session_id == at.session_id)

    texts = [event.part for event in listener.of(PartUpdated) if getattr(event.part, "text", "") == "Hi."]
    assert texts
    assert texts[-1] in answer.parts


class Watched(ScriptedModel):
    """Counts how many requests of a session are open at once, over all models that share the counts."""

    def __init__(self, now: Counter[str], most: Counter[str]) -> None:
        super().__init__({f"go {n}": [[call("gate")], [call("gate")], [say("Done.")]] for n in range(8)})
        self._now = now
        self._most = most

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        first = request.messages[0]
        assert isinstance(first, UserTurn)
        number = first.text.split()[-1]
        self._now[number] += 1
        self._most[number] = max(self._most[number], self._now[number])
        try:
            async for event in super().stream(request):
                await asyncio.sleep(0)
                yield event
        finally:
            self._now[number] -= 1


@pytest.mark.spec("X-11")
async def test_two_runtimes_that_serve_one_directory_never_run_a_session_twice_at_once(
    tmp_path: Path,
) -> None:
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    tools: Counter[SessionId] = Counter()

    async def run(args: NoArguments, context: ToolContext) -> Completed:
        tools[context.session_id] += 1
        return Completed("through")

    gate = Tool("gate", NoArguments, run)
    models = [Watched(now, most), Watched(now, most)]
    async with (
        open_runtime(tmp_path, model=models[0], tools=[gate]) as one,
        open_runtime(tmp_path, model=models[1], tools=[gate]) as two,
        asyncio.timeout(PATIENCE),
    ):
        sessions = [await one.create_session(directory=tmp_path) for _ in range(8)]
        answers = await asyncio.gather(
            *(one.prompt(session.id, f"go {n}") for n, session in enumerate(sessions)),
            *(two.send(session.id, f"and more {n}") for n, session in enumerate(sessions)),
        )
        histories = [await two.messages(session.id) for session in sessions]

    assert len(answers) == 16
    assert len(most) == 8
    assert set(most.values()) == {1}
    assert set(tools.values()) == {2}
    for history in histories:
        assert [entry.text for entry in history if entry.text == "Done."] == ["Done."]
    assert_requests_only_grow(models[0].requests)
    assert_requests_only_grow(models[1].requests)


@pytest.mark.spec("X-07", "D-10")
async def test_a_runtime_that_stops_during_a_claim_leaves_the_session_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever serves next takes it up only when it looks for the dead."""
    model, claimed = ScriptedModel({"hello": [[say("Hi.")]]}), asyncio.Event()
    async with open_runtime(tmp_path, model=model, serve=False) as other:
        async with open_runtime(tmp_path, model=model) as stopping:
            store = inside(stopping).store
            claim = store.claim

            async def unheard(*args: Any, **more: Any) -> None:
                await claim(*args, **more)
                claimed.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(store, "claim", unheard)
            session, _ = await stopping.begin("hello", directory=tmp_path)
            async with asyncio.timeout(PATIENCE):
                await claimed.wait()
        control = await inside(other).store.control(session.id)
    assert control.state == "ready"
    assert control.owner is None
    assert control.claims == 0


@pytest.mark.spec("X-01")
async def test_an_answer_sorts_after_a_prompt_with_an_id_ahead_of_the_clock(
    tmp_path: Path,
) -> None:
    """People read in the order of ids, and an undo of the prompt takes its answer along."""
    ahead = Ids(FakeClock(SystemClock().now() + AHEAD_MS - 1_000), SystemRng()).message()
    async with open_stage(tmp_path, {}, serve=False) as at:
        await at.runtime.send(at.session_id, "hello", message_id=ahead)
    model = ScriptedModel({"hello": [[call("look")], [say("Hi.")]]})
    async with open_runtime(tmp_path, model=model) as runtime, asyncio.timeout(PATIENCE):
        await runtime.wait(at.session_id)
        entries = await runtime.messages(at.session_id)

    assert entries[0].info.id == ahead
    assert [entry.text for entry in entries] == ["hello", "", "Hi."]
