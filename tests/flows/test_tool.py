"""Tools: they run side by side, and whatever goes wrong with one is an error that the model reads."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.engine.tool import Ask, Outcome, Pending, Tool, ToolContext, WithFacts
from asyncagents.errors import ToolError as ToolFailure
from asyncagents.llm.model import ToolTurn, UserTurn
from asyncagents.llm.scripted import call, say
from asyncagents.testing.inside import inside
from tests.support.runtime import open_stage
from tests.support.tool import ECHO, Gate, NoArguments


def tool(
    name: str, run: Callable[[NoArguments, ToolContext], Awaitable[Any]], **more: Any
) -> Tool[NoArguments]:
    return Tool(name, NoArguments, run, **more)


async def hang(args: NoArguments, context: ToolContext) -> Completed:
    await asyncio.Event().wait()
    return Completed("never")


async def refuse(args: NoArguments, context: ToolContext) -> Completed:
    raise ToolFailure("The printer is out of paper. Add some.")


async def crash(args: NoArguments, context: ToolContext) -> Completed:
    raise ValueError("bad luck")


async def give_up(args: NoArguments, context: ToolContext) -> Completed:
    """As a tool does that waits for a task which somebody cancelled."""
    raise asyncio.CancelledError


async def run_late(args: NoArguments, context: ToolContext) -> Completed:
    raise TimeoutError("the printer did not answer")


async def mumble(args: NoArguments, context: ToolContext) -> Completed:
    return cast(Completed, "not a result")


async def garble(args: NoArguments, context: ToolContext) -> Completed:
    return Completed("half a character: \ud83c")


async def say_no(args: NoArguments, context: ToolContext) -> Failed:
    return Failed("not today")


@pytest.mark.spec("C-02")
async def test_the_calls_of_a_step_run_side_by_side(tmp_path: Path) -> None:
    one, two = Gate("one"), Gate("two", result="over")
    script = {"go": [[call("one"), call("two")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[one.tool, two.tool]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await one.until_started()
        await two.until_started()
        two.go.set()
        await two.ended.wait()
        assert not one.ended.is_set()
        one.go.set()
        await prompt

    assert [told.output for told in at.request_messages() if isinstance(told, ToolTurn)] == [
        "through",
        "over",
    ]


@pytest.mark.spec("C-02")
@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (tool("it", refuse), "The printer is out of paper. Add some."),
        (tool("it", crash), "ValueError: bad luck"),
        (tool("it", run_late), "TimeoutError: the printer did not answer"),
        (tool("it", say_no), "not today"),
        (tool("it", hang, timeout=0.02), "Tool execution timed out after 0.02 s."),
        (tool("it", give_up), "CancelledError"),
        (tool("it", mumble), "not a result"),
        (tool("it", garble), "surrogates not allowed"),
    ],
    ids=["refuses", "crashes", "meets a timeout", "fails", "hangs", "is cancelled", "mumbles", "garbles"],
)
async def test_a_failed_tool_is_an_error_for_the_model_and_spares_its_siblings(
    tmp_path: Path, broken: Tool[NoArguments], error: str
) -> None:
    script = {"go": [[call("it"), call("echo", text="a")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[broken, ECHO]) as at:
        answer = await at.prompt("go")
        failed, fine = await at.states()

    assert answer.text == "Done."
    assert isinstance(failed, ToolFailed)
    assert error in failed.error
    assert isinstance(fine, ToolCompleted)
    first, second = (told for told in at.request_messages() if isinstance(told, ToolTurn))
    assert first.output == failed.error
    assert first.failed is True
    assert second.output == "a"
    assert second.failed is False


@pytest.mark.spec("C-02")
async def test_an_unknown_tool_and_wrong_arguments_are_errors_the_model_can_act_on(tmp_path: Path) -> None:
    script = {
        "go": [
            [call("ecko", text="a"), call("echo", words="a"), call("echo", text=5), call("echo", text="b")],
            [say("Done.")],
        ]
    }
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:
        answer = await at.prompt("go")

    assert answer.text == "Done."
    unknown, missing, mistyped, fine = (told for told in at.request_messages() if isinstance(told, ToolTurn))
    assert unknown.output == "There is no tool named 'ecko'. Available: echo."
    assert "missing required field `text`" in missing.output
    assert "Expected `str`, got `int` - at `$.text`" in mistyped.output
    assert [turn.failed for turn in (unknown, missing, mistyped, fine)] == [True, True, True, False]


async def test_facts_of_a_tool_commit_with_its_result(tmp_path: Path) -> None:
    async def remind(args: NoArguments, context: ToolContext) -> WithFacts:
        note = inside(at.runtime).inputs.build_prompt(
            context.session_id, "And the docs.", key=f"note:{context.call_id}", options={}
        )
        return WithFacts(Completed("noted"), (replace(note, source="system"),))

    script = {"go": [[call("remind")], [say("Docs too.")]]}
    async with open_stage(tmp_path, script, tools=[tool("remind", remind)]) as at:
        answer = await at.prompt("go")

    assert answer.text == "Docs too."
    assert at.request_messages()[-2:] == [ToolTurn("call_1_0", "remind", "noted"), UserTurn("And the docs.")]


async def test_a_tool_context_names_the_session_message_agent_and_directory(tmp_path: Path) -> None:
    contexts: list[ToolContext] = []

    async def look(args: NoArguments, context: ToolContext) -> Completed:
        contexts.append(context)
        return Completed("seen")

    async with open_stage(
        tmp_path, {"go": [[call("look")], [say("Done.")]]}, tools=[tool("look", look)]
    ) as at:
        await at.prompt("go")
        step = (await at.messages())[1]

    (context,) = contexts
    assert context.session_id == at.session_id
    assert context.message_id == step.info.id
    assert context.agent == "build"
    assert context.directory == str(tmp_path)


async def test_a_request_describes_the_tools_of_the_session(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"hello": [[say("Hi.")]]}, tools=[ECHO]) as at:
        await at.prompt("hello")

    (spec,) = at.model.requests[0].tools
    assert spec.name == "echo"
    assert spec.description == "Does something with a text."
    assert "text" in str(spec.parameters)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Completed(42), "Expected `str`"),  # type: ignore[arg-type]
        (Pending(kind="question"), "with its questions"),
        (Pending(kind="ask"), "kind async or wait"),
    ],
)
async def test_an_invalid_outcome_of_a_tool_fails_the_call(
    tmp_path: Path, outcome: Outcome, error: str
) -> None:
    async def odd(args: NoArguments, context: ToolContext) -> Outcome:
        return outcome

    script = {"go": [[call("odd")], [say("I see.")]]}
    async with open_stage(tmp_path, script, tools=[Tool("odd", NoArguments, odd)]) as at:
        answer = await at.prompt("go")
        told = at.model.requests[-1].messages[-1]

    assert answer.text == "I see."
    assert isinstance(told, ToolTurn)
    assert told.failed
    assert error in told.output


async def test_a_failure_with_an_unpaired_surrogate_reaches_the_model(tmp_path: Path) -> None:
    async def odd(args: NoArguments, context: ToolContext) -> Outcome:
        raise ToolFailure("no file \udcff")

    async with open_stage(
        tmp_path, {"go": [[call("odd")], [say("Oh.")]]}, tools=[Tool("odd", NoArguments, odd)]
    ) as at:
        answer = await at.prompt("go")
        told = at.model.requests[-1].messages[-1]

    assert answer.text == "Oh."
    assert isinstance(told, ToolTurn)
    assert told.output == "no file ?"


@pytest.mark.parametrize(
    "planned",
    [
        None,
        7,
        ("publish",),
        (Ask("publish", "site/*"),),  # type: ignore[arg-type]
        (Ask("publish", ("site/*",), None),),  # type: ignore[arg-type]
        (Ask("publish", metadata={"to": Path("site")}),),
        (Ask("publish", metadata={"to": "\ud800"}),),
        (Ask("publish", metadata=None),),  # type: ignore[arg-type]
        (Ask(7),),  # type: ignore[arg-type]
    ],
    ids=str,
)
async def test_an_invalid_plan_of_a_tool_fails_the_call_and_the_turn_goes_on(
    tmp_path: Path, planned: Any
) -> None:
    async def plan(args: NoArguments, context: ToolContext) -> Any:
        return planned

    async def never(args: NoArguments, context: ToolContext) -> Completed:
        raise AssertionError("nobody allowed it")

    script = {"go": [[call("publish")], [say("I see.")]]}
    async with open_stage(tmp_path, script, tools=[tool("publish", never, plan=plan)]) as at:
        answer = await at.prompt("go")
        (state,) = await at.states()
    assert answer.text == "I see."
    assert isinstance(state, ToolFailed)
    assert "its plan is to return Asks" in state.error
