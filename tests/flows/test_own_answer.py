"""A blocking caller gets the answer to its own prompt, with the step that answers it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncagents.domain.event import TaskCompleted
from asyncagents.domain.id import MessageId
from asyncagents.llm.model import ChatRequest, ModelEvent, TextDelta
from asyncagents.llm.scripted import call, say
from tests.support.delegation import (
    RequestScript,
    RequestScriptModel,
    allow_all,
    launch_task,
    read_notices,
    wait_for_task_end,
    wait_until_quiet,
)
from tests.support.runtime import Stage, answer_of, open_stage
from tests.support.tool import Gate
from tests.support.wait import PATIENCE


class Slow(RequestScriptModel):
    """A model that stops in the middle of one answer until it is let go."""

    def __init__(self, scenes: RequestScript, text: str) -> None:
        super().__init__(scenes)
        self._text = text
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def _play(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in super()._play(request):
            yield event
            if isinstance(event, TextDelta) and event.text == self._text:
                self.reached.set()
                await self.go.wait()

    async def until_reached(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.reached.wait()


async def answer_to(at: Stage, message_id: MessageId) -> str:
    found = await at.runtime.answer_to(message_id)
    assert found is not None
    return found.text


@pytest.mark.spec("Z-02", "S-12")
async def test_a_caller_gets_its_own_answer_though_a_notice_joins_the_turn(tmp_path: Path) -> None:
    gate, held = Gate("gate"), Gate("held")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [say("MY ANSWER")], [call("held")], [say("The notice says so.")]],
        "a": [[call("gate")], [say("A.")]],
    }
    model = Slow(scenes, "MY ANSWER")
    async with open_stage(
        tmp_path, model, tools=[gate.tool, held.tool], delegation=True, policy=allow_all
    ) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await model.until_reached()
        await gate.until_started()
        gate.go.set()
        await wait_for_task_end(at, "A", TaskCompleted)
        model.go.set()
        answer = await prompt  # the turn goes on: the notice's reply is held by a tool
        await held.until_started()
        held.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        info = answer_of(answer)
        known = await answer_to(at, info.parent_id)
        (notice,) = await read_notices(at)
        replied = await answer_to(at, MessageId(notice.info.id))
    assert answer.text == "MY ANSWER"
    assert known == "MY ANSWER"
    assert replied == "The notice says so."


@pytest.mark.spec("Z-02", "S-12")
async def test_a_prompt_that_comes_while_another_is_answered_gets_an_answer_of_its_own(
    tmp_path: Path,
) -> None:
    scenes: RequestScript = {"one": [[say("First.")]], "two": [[say("Second.")]]}
    model = Slow(scenes, "First.")
    async with open_stage(tmp_path, model) as at:
        one = asyncio.ensure_future(at.prompt("one"))
        await model.until_reached()
        two = await at.runtime.send(at.session_id, "two")
        model.go.set()
        first = await one
        await wait_until_quiet(at.runtime, at.session_id)
        second = await answer_to(at, two)
    assert first.text == "First."
    assert second == "Second."


@pytest.mark.spec("Z-02")
async def test_prompts_that_wait_together_share_an_answer(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {"one": [[call("gate")], [say("Both.")]], "two": [[say("Both.")]]}
    async with open_stage(tmp_path, RequestScriptModel(scenes), tools=[gate.tool]) as at:
        one = asyncio.ensure_future(at.prompt("one"))
        await gate.until_started()
        two = await at.runtime.send(at.session_id, "two")
        gate.go.set()
        first = await one
        second = await at.runtime.answer_to(two)
    assert second is not None
    assert first.info.id == second.info.id


@pytest.mark.spec("Z-02")
async def test_the_format_and_system_text_of_a_prompt_end_with_its_answer(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    scenes: RequestScript = {
        "where": [[say("Thinking."), call("StructuredOutput", city="Ulm")]],
        "hello": [[say("Hello.")]],
    }
    model = Slow(scenes, "Thinking.")
    async with open_stage(tmp_path, model) as at, asyncio.timeout(PATIENCE):
        wanted = {"type": "json_schema", "schema": schema}
        first = asyncio.ensure_future(
            at.runtime.prompt(at.session_id, "where", format=wanted, system="Be terse.")
        )
        await model.until_reached()
        second = await at.runtime.send(at.session_id, "hello")
        model.go.set()
        formed = answer_of(await first).structured
        await wait_until_quiet(at.runtime, at.session_id)
        plain = await answer_to(at, second)
    assert formed == {"city": "Ulm"}
    assert plain == "Hello."
    assert "Be terse." in (model.requests[0].system or "")
    assert "Be terse." not in (model.requests[-1].system or "")
