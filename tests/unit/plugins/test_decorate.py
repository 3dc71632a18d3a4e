"""A function becomes a tool: what the model may give, what it reads, and what comes of it."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from asyncagents import Ask, Completed, Failed, Pending, ToolContext, async_tool, tool
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import AnyTool, AsyncSpec
from asyncagents.errors import InvalidInput

PATIENCE = 20.0


def context(**more: Any) -> ToolContext:
    return ToolContext(
        session_id=SessionId("ses_1"),
        message_id=MessageId("msg_1"),
        call_id=CallId("cal_1"),
        agent="build",
        directory="/work",
        **more,
    )


async def used(made: AnyTool, given: dict[str, Any], at: ToolContext | None = None) -> Any:
    return await made.run(msgspec.convert(given, made.args), at or context())


@pytest.mark.spec("A-06")
async def test_parameters_become_the_schema_with_defaults_and_descriptions() -> None:
    @tool
    async def weather(
        city: Annotated[str, "Where."],
        days: Annotated[int, Meta(ge=1, le=9)] = 3,
        unit: Literal["C", "F"] = "C",
        tags: list[str] = ["a"],  # noqa: B006  it is copied for each call
    ) -> str:
        """Tell the weather.

        As the stations have it.

        Args:
            days: How many,
                from today on.
            unit (str): Of the temperature.

        Returns:
            something: else
        """
        tags.append(unit)
        return f"{city} {days} {tags}"

    spec = weather.spec()
    assert spec.name == "weather"
    assert spec.description == "Tell the weather.\n\nAs the stations have it."
    properties = spec.parameters["properties"]
    assert spec.parameters["required"] == ["city"]
    assert properties["city"] == {"type": "string", "description": "Where."}
    assert properties["days"]["description"] == "How many, from today on."
    assert properties["days"]["minimum"] == 1
    assert properties["days"]["maximum"] == 9
    assert properties["unit"]["enum"] == ["C", "F"]
    for _ in range(2):
        assert await used(weather, {"city": "Ulm"}) == Completed("Ulm 3 ['a', 'C']")
    with pytest.raises(msgspec.ValidationError):
        await used(weather, {"city": "Ulm", "days": 10})


@pytest.mark.spec("A-06")
async def test_a_plain_function_runs_in_a_thread_of_its_own() -> None:
    @tool
    def where() -> str:
        return threading.current_thread().name

    assert await used(where, {}) == Completed("asyncagents-foreign")


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("text", Completed("text")),
        (None, Completed("(no output)")),
        ({"a": [1]}, Completed('{"a":[1]}')),
        (Point(1, 2), Completed('{"x":1,"y":2}')),
        (Completed("c", title="t"), Completed("c", title="t")),
        (Failed("f"), Failed("f")),
        (Pending(note="n"), Pending(note="n")),
    ],
)
async def test_the_return_value_of_a_tool_becomes_its_result(value: Any, outcome: Any) -> None:
    @tool
    def answers() -> Any:
        return value

    assert await used(answers, {}) == outcome


async def test_a_return_value_without_a_json_form_is_refused() -> None:
    @tool
    def answers() -> Any:
        return object()

    with pytest.raises(InvalidInput, match="no JSON form"):
        await used(answers, {})


@pytest.mark.spec("A-09")
async def test_the_context_parameter_may_have_any_name_and_is_no_argument() -> None:
    @tool(name="other", description="Says who.", effect="none", timeout=5)
    async def who(ctx: ToolContext, name: str) -> list[str]:
        return [ctx.session_id, ctx.message_id, ctx.call_id, ctx.effect_key, ctx.agent, ctx.directory, name]

    assert who.name == "other"
    assert who.description == "Says who."
    assert who.effect == "none"
    assert who.timeout == 5
    assert list(who.spec().parameters["properties"]) == ["name"]
    outcome = await used(who, {"name": "x"})
    assert outcome.output == '["ses_1","msg_1","cal_1","cal_1","build","/work","x"]'


async def test_a_plan_takes_some_of_the_arguments_and_returns_asks() -> None:
    def plan(path: str) -> Ask:
        return Ask("edit", (path,))

    async def plans(context: ToolContext, path: str) -> list[Ask]:
        return [Ask("edit", (path,)), Ask("agent", (context.agent,))]

    def nothing() -> None:
        return None

    def nonsense() -> str:
        return "edit"

    async def asks_of(plan: Any) -> tuple[Ask, ...]:
        @tool(plan=plan)
        async def change(path: str, text: str) -> str:
            return text

        assert change.plan is not None
        return await change.plan(msgspec.convert({"path": "a", "text": ""}, change.args), context())

    assert await asks_of(plan) == (Ask("edit", ("a",)),)
    assert await asks_of(plans) == (Ask("edit", ("a",)), Ask("agent", ("build",)))
    assert await asks_of(nothing) == ()
    with pytest.raises(TypeError, match="a plan returns Asks"):
        await asks_of(nonsense)


async def test_reconcile_returns_a_result_or_none() -> None:
    known: list[Any] = [None, "done", Failed("no")]

    @tool(reconcile=lambda number: known[number])
    async def change(number: int) -> str:
        return ""

    assert change.reconcile is not None
    found = [await change.reconcile(change.args(number=number), context()) for number in range(3)]
    assert found == [None, Completed("done"), Failed("no")]


@pytest.mark.spec("A-06")
async def test_an_async_tool_waits_for_a_result_from_outside() -> None:
    started: list[str] = []

    @async_tool(seconds=60, name="deploy")
    async def start(target: str, context: ToolContext) -> str:
        started.append(context.pending_id)
        return f"Deploying {target}."

    @async_tool
    def quiet() -> None: ...

    @async_tool()
    async def known() -> Completed:
        return Completed("already done")

    @async_tool()
    async def wrong() -> int:
        return 7

    assert await used(start, {"target": "prod"}) == Pending(note="Deploying prod.")
    assert start.async_spec == AsyncSpec(seconds=60)
    assert started == ["cal_1"]
    assert await used(quiet, {}) == Pending()
    assert await used(known, {}) == Completed("already done")
    with pytest.raises(TypeError, match="a note, a Pending or nothing"):
        await used(wrong, {})


@pytest.mark.spec("A-09")
async def test_the_thread_of_a_tool_sees_the_abort_before_the_cancel_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at, started, ended = context(), threading.Event(), threading.Event()

    @tool
    def waits(context: ToolContext) -> str:
        started.set()
        context.abort.wait(PATIENCE)
        ended.set()
        return "late"

    task = asyncio.get_running_loop().create_task(used(waits, {}, at))
    await asyncio.to_thread(started.wait, PATIENCE)
    at.abort.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert at.abort.is_set()
    await at.abort.until_set()
    assert caplog.records == []


async def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason() -> None:
    def untyped(x): ...  # type: ignore[no-untyped-def]

    def many(*x: int) -> None: ...

    def strange(x: threading.Event) -> None: ...

    def unknown(x: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    cases: list[tuple[Any, str]] = [
        (untyped, "has no type: write one"),
        (many, "by name, each once"),
        (strange, "a parameter that JSON cannot express: type .*Event.* is not supported$"),
        (unknown, "cannot be read"),
        (int, "decorates a function"),
        (lambda: None, "its name must be"),
    ]
    for function, why in cases:
        with pytest.raises(InvalidInput, match=why):
            tool(function)
