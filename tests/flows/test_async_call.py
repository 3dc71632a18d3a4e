"""Calls whose result comes later: the session waits at no cost, and the model learns each result once."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.backend import PolledDatabase
from asyncagents.app.workplaces import fixed_tools
from asyncagents.domain.call.call import (
    TIMED_OUT,
    WAIT_ENDED,
    WAIT_OVER,
    Completed,
)
from asyncagents.domain.call.late_result import pending_text
from asyncagents.domain.conversation.part import TextPart, ToolCompleted, ToolFailed, ToolPart, ToolWaiting
from asyncagents.domain.conversation.status import Busy, Idle, WaitingAsync
from asyncagents.domain.event import PartUpdated, SessionIdle, SessionStatus
from asyncagents.domain.id import CallId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import Pending, Tool, ToolContext
from asyncagents.errors import AlreadySettled, NotFound
from asyncagents.llm.model import ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.store.tx import Verb
from asyncagents.testing.inside import inside
from tests.support.runtime import EventListener, Stage, open_sqlite_runtime, open_stage
from tests.support.tool import ECHO, Gate, NoArguments, build_pending_tool
from tests.support.wait import PATIENCE, wait_until

T = TypeVar("T")
DEPLOY = build_pending_tool("deploy", note="queued as #7")
SCRIPT = {"ship": [[call("deploy")], [say("Shipped.")]], "news?": [[say("Not yet.")], [say("Now it is.")]]}


def results(at: Stage) -> list[str]:
    return [told.output for told in at.request_messages() if isinstance(told, ToolTurn)]


@pytest.mark.spec("C-06", "C-03")
async def test_the_status_of_a_waiting_session_names_call_tool_start_and_deadline(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        status = await at.status()
        listed = await at.runtime.statuses()
        waiting = await at.open_call()
        await at.listener.until_status(WaitingAsync)

    assert waiting.open is not None
    assert status == WaitingAsync(
        pending_id=waiting.id, tool="deploy", since=waiting.open.since, timeout=waiting.open.due
    )
    assert listed == {at.session_id: status}
    assert waiting.open.due == waiting.open.since + 24 * 3600 * 1000
    assert [event.status for event in at.listener.of(SessionStatus)] == [Busy(), status]


@pytest.mark.spec("C-03")
async def test_a_blocking_prompt_returns_when_only_a_pending_call_is_open(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        answer = await at.prompt("ship")

    (part,) = (part for part in answer.parts if isinstance(part, ToolPart))
    assert isinstance(part.state, ToolWaiting)
    assert part.state.output == "queued as #7"
    assert part.state.time.end is None


async def test_a_waiting_session_costs_the_process_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        await wait_until(lambda: not at.runtime.live)  # no event tells that a run is gone


@pytest.mark.spec("C-03", "C-06")
async def test_a_result_resumes_the_session(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        done = await at.runtime.complete(waiting.id, "v2 is live", title="Deployed")
        await at.listener.until(SessionIdle)
        (state,) = await at.states()
        answer = (await at.messages())[-1]

    assert done.is_settled
    assert isinstance(state, ToolCompleted)
    assert state.output == "v2 is live"
    assert state.title == "Deployed"
    assert results(at) == ["v2 is live"]
    assert answer.text == "Shipped."
    kinds = [type(event.status) for event in at.listener.of(SessionStatus)]
    assert kinds == [Busy, WaitingAsync, Busy, Idle]


async def test_a_failure_from_outside_resumes_the_session(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        await at.runtime.fail((await at.open_call()).id, "no route")
        await at.listener.until(SessionIdle)
        (state,) = await at.states()

    assert isinstance(state, ToolFailed)
    assert results(at) == [state.error] == ["no route"]


async def test_the_same_result_again_is_answered_alike_and_another_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        first, again = await asyncio.gather(
            at.runtime.complete(waiting.id, "v2"), at.runtime.complete(waiting.id, "v2")
        )
        with pytest.raises(AlreadySettled, match="v2") as refused:
            await at.runtime.complete(waiting.id, "v3")
        with pytest.raises(AlreadySettled):
            await at.runtime.fail(waiting.id, "v2")
        with pytest.raises(NotFound):
            await at.runtime.complete(CallId("tool_nobody"), "v2")
        await at.listener.until(SessionIdle)
        assert await at.runtime.complete(waiting.id, "v2") == first

    assert first == again
    assert refused.value.call_id == waiting.id
    assert results(at) == ["v2"]
    assert len(at.model.requests) == 2


async def test_a_step_with_several_pending_calls_resumes_after_the_last_result(tmp_path: Path) -> None:
    script = {"ship": [[call("deploy"), call("echo", text="a"), call("deploy")], [say("Shipped.")]]}
    async with open_stage(tmp_path, script, tools=[DEPLOY, ECHO]) as at:
        await at.prompt("ship")
        first, last = await at.runtime.open_calls(at.session_id)
        await at.runtime.complete(last.id, "second")
        await at.listener.until_status(WaitingAsync)
        await at.listener.until_status(WaitingAsync)
        between = len(at.model.requests)
        await at.runtime.complete(first.id, "first")
        await at.listener.until(SessionIdle)

    assert between == 1
    assert len(at.model.requests) == 2
    assert results(at) == ["first", "a", "second"]


@pytest.mark.spec("C-03")
async def test_a_prompt_during_a_pending_call_is_answered_and_the_result_comes_once(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        meanwhile = await at.prompt("news?")
        still = await at.status()
        for _ in range(2):
            await at.runtime.complete(waiting.id, "v2 is live")
        await at.listener.until(SessionIdle)
        answer = (await at.messages())[-1]
        (state,) = await at.states()

    assert meanwhile.text == "Not yet."
    assert answer.text == "Now it is."
    assert isinstance(still, WaitingAsync)
    assert still.pending_id == waiting.id
    assert isinstance(state, ToolCompleted)
    assert at.request_messages(1)[2:] == [
        ToolTurn(waiting.call_id, "deploy", pending_text(waiting.call_id, "deploy")),
        UserTurn("news?"),
    ]
    news = f"The pending call {waiting.call_id} (deploy) has completed:\n\nv2 is live"
    assert at.request_messages()[-1] == UserTurn(news)
    assert len(at.model.requests) == 3


async def test_a_late_result_is_a_synthetic_message_that_people_need_not_read(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        waiting = await at.open_call()
        await at.prompt("news?")
        await at.runtime.complete(waiting.id, "v2")
        await at.listener.until(SessionIdle)
        late = (await at.messages())[-2]

    (part,) = late.parts
    assert isinstance(part, TextPart)
    assert part.synthetic is True
    assert late.text == ""


async def test_two_late_results_reach_the_model_once_each(tmp_path: Path) -> None:
    script = {"ship": [[call("deploy"), call("deploy")]], "news?": [[say("Not yet.")]]}
    async with open_stage(tmp_path, script, tools=[DEPLOY]) as at:
        await at.prompt("ship")
        first, second = await at.runtime.open_calls(at.session_id)
        await at.prompt("news?")
        await at.runtime.complete(second.id, "two")
        await at.listener.until_status(WaitingAsync)
        await at.runtime.complete(first.id, "one")
        await at.listener.until(SessionIdle)

    told = [told.text for told in at.request_messages() if isinstance(told, UserTurn)]
    assert len([text for text in told if text.endswith("\n\none")]) == 1
    assert len([text for text in told if text.endswith("\n\ntwo")]) == 1


@pytest.mark.spec("C-03")
async def test_a_result_submitted_before_the_tool_returns_pending_wins(tmp_path: Path) -> None:
    runtimes: list[Runtime] = []

    async def run(args: NoArguments, context: ToolContext) -> Pending:
        await runtimes[0].complete(context.call_id, "already there")
        return Pending()

    async with open_stage(tmp_path, SCRIPT, tools=[Tool("deploy", NoArguments, run)]) as at:
        runtimes.append(at.runtime)
        answer = await at.prompt("ship")

    assert answer.text == "Shipped."
    assert results(at) == ["already there"]


async def test_a_result_from_outside_stays_when_the_tool_answers_later(tmp_path: Path) -> None:
    gate = Gate("deploy")
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:
        prompt = asyncio.ensure_future(at.prompt("ship"))
        await gate.until_started()
        event = await at.listener.until(PartUpdated, lambda event: isinstance(event.part, ToolPart))
        assert isinstance(event.part, ToolPart)
        (running,) = await inside(at.runtime).store.calls(at.session_id)
        await at.runtime.complete(running.id, "from outside")
        gate.go.set()
        await prompt

    assert results(at) == ["from outside"]


async def test_an_expired_call_fails_and_resumes_the_session(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[build_pending_tool("deploy", seconds=0.02)]) as at:
        await at.prompt("ship")
        await at.listener.until(SessionIdle)
        (state,) = await at.states()

    assert isinstance(state, ToolFailed)
    assert results(at) == [state.error] == [TIMED_OUT]


async def test_a_tool_defines_the_result_of_its_expired_call(tmp_path: Path) -> None:
    tool = build_pending_tool("deploy", seconds=0.02, on_due=Completed("nobody objected"))
    async with open_stage(tmp_path, SCRIPT, tools=[tool]) as at:
        await at.prompt("ship")
        await at.listener.until(SessionIdle)

    assert results(at) == ["nobody objected"]


async def test_a_call_without_a_deadline_has_none_in_the_status(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[build_pending_tool("deploy", seconds=None)]) as at:
        await at.prompt("ship")
        status = await at.status()

    assert isinstance(status, WaitingAsync)
    assert status.timeout is None


@pytest.mark.spec("C-03", "C-06")
async def test_a_timer_ends_by_itself(tmp_path: Path) -> None:
    async with open_stage(
        tmp_path, SCRIPT, tools=[build_pending_tool("deploy", kind="wait", seconds=0.02)]
    ) as at:
        await at.prompt("ship")
        await at.listener.until(SessionIdle)

    assert results(at) == [WAIT_OVER]


class SlowLook:
    """A database where the look that a sweep takes after an expiry lasts as long as it is held."""

    def __init__(self) -> None:
        self.looking = asyncio.Event()
        self.go = asyncio.Event()
        self._expired = False

    def behind(self, database: PolledDatabase) -> PolledDatabase:
        self._database = database
        self.listen, self.poll = database.listen, database.poll
        return self

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        self._expired = self._expired or "Store.expire" in verb.__qualname__
        return await self._database.write(verb, inline=inline)

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        found = await self._database.read(verb, inline=inline)
        if self._expired and "Store.active" in verb.__qualname__:
            self.looking.set()
            await self.go.wait()
        return found


async def test_a_deadline_that_is_set_while_the_sweep_looks_is_kept(tmp_path: Path) -> None:
    database, model = SlowLook(), ScriptedModel(SCRIPT)
    setup = Setup(model=model, open_workplaces=fixed_tools([build_pending_tool("deploy", seconds=0.05)]))
    async with (
        open_sqlite_runtime(tmp_path, setup, behind=database.behind) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        first = await runtime.create_session(directory=tmp_path)
        await runtime.send(first.id, "ship")
        await database.looking.wait()
        with inside(runtime).bus.subscribe() as subscription:
            second = await runtime.create_session(directory=tmp_path)
            await runtime.prompt(second.id, "ship")
            database.go.set()
            await EventListener(subscription).until(SessionIdle, lambda event: event.session_id == second.id)

    assert TIMED_OUT in str(model.requests[-1].messages)


@pytest.mark.spec("C-03")
async def test_a_prompt_ends_a_wait(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[build_pending_tool("deploy", kind="wait")]) as at:
        await at.prompt("ship")
        answer = await at.prompt("news?")
        status = await at.status()

    assert answer.text == "Not yet."
    assert status == Idle()
    assert at.request_messages()[-2:] == [ToolTurn("call_1_0", "deploy", WAIT_ENDED), UserTurn("news?")]
    assert len(at.model.requests) == 2
