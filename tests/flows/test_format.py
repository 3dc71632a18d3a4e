"""An answer in a form: a schema goes with the prompt, and what comes back fits it or is an error."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from asyncagents.config.config import AgentConfig, Config
from asyncagents.domain.conversation.failure import APIError, MessageAbortedError, StructuredOutputError
from asyncagents.domain.conversation.message import JsonFormat, UserMessage
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.event import SessionError
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.llm.scripted import ScriptedModel, ScriptLine, call, end, fail, pause, say
from tests.support.runtime import Stage, answer_of, open_stage, resume_session
from tests.support.tool import ECHO

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
ROME = call("StructuredOutput", name="Rome", people=3)
WRONG = call("StructuredOutput", name="Rome", people="many", extra=1)


def script(*steps: list[ScriptLine]) -> dict[str, list[list[ScriptLine]]]:
    return {"go": list(steps)}


def allow(ask: Any, context: Any) -> Any:
    return "allow"


async def go(at: Stage, format: Any = CITY, **more: Any) -> Any:
    return await at.runtime.prompt(at.session_id, "go", format=format, **more)


def tools(request: ChatRequest) -> list[str]:
    return [tool.name for tool in request.tools]


@pytest.mark.spec("S-07")
async def test_an_answer_that_fits_the_schema_is_stored_and_ends_the_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script([say("Let me see."), ROME])) as at:
        entry = await go(at)
        (state,) = await at.states()
        (asked, _) = await at.messages()
    (request,) = at.model.requests
    assert request.tool_choice == "StructuredOutput"
    assert request.tools[0].parameters == CITY
    answer = answer_of(entry)
    assert answer.structured == {"name": "Rome", "people": 3}
    assert answer.finish == "stop"
    assert answer.error is None
    assert isinstance(state, ToolCompleted)
    assert isinstance(asked.info, UserMessage)
    assert asked.info.format == JsonFormat(schema=CITY)


async def test_other_tools_may_be_used_first(tmp_path: Path) -> None:
    steps = script([call("echo", text="hi")], [call("echo", text="ho"), ROME])
    async with open_stage(tmp_path, steps, tools=[ECHO]) as at:
        entry = await go(at)
        states = await at.states()
    assert [request.tool_choice for request in at.model.requests] == ["required", "required"]
    assert tools(at.model.requests[0]) == ["echo", "StructuredOutput"]
    assert answer_of(entry).structured == {"name": "Rome", "people": 3}
    assert [type(state) for state in states] == [ToolCompleted, ToolFailed, ToolCompleted]


async def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_errors(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script([WRONG], [say("Rome, 3")], [ROME])) as at:
        entry = await go(at)
        (first, last) = await at.states()
    assert isinstance(first, ToolFailed)
    assert 'at /people: "many" is not of type "integer"' in first.error
    assert "'extra' was unexpected" in first.error
    assert isinstance(last, ToolCompleted)
    (_, again, plain) = [told.text for told in at.request_messages() if isinstance(told, UserTurn)]
    assert "is not of type" in again
    assert "it was not given by a call of StructuredOutput" in plain
    assert answer_of(entry).structured == {"name": "Rome", "people": 3}
    assert len(at.model.requests) == 3


@pytest.mark.parametrize(("count", "requests"), [(None, 3), (0, 1), (1, 2)])
@pytest.mark.parametrize("step", [[WRONG], [say("Rome")], [say("Ro"), end("length")]])
async def test_after_so_many_tries_the_turn_ends_with_an_error(
    tmp_path: Path, step: list[ScriptLine], count: int | None, requests: int
) -> None:
    async with open_stage(tmp_path, {**script(*[step] * 9), "hello": [[say("Hello.")]]}) as at:
        entry = await go(at, JsonFormat(schema=CITY, retry_count=count))
        error = answer_of(entry).error
        await at.listener.until(SessionError)
        after = await at.prompt("hello")
    assert isinstance(error, StructuredOutputError)
    assert error.data.retries == requests - 1
    assert len(at.model.requests) == requests + 1
    assert answer_of(after).structured is None
    assert tools(at.model.requests[-1]) == []
    assert at.model.requests[-1].tool_choice is None


async def test_the_last_step_of_an_agent_gives_the_answer_or_an_error(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    coding = Config(data_dir=tmp_path / "data", agent={"build": AgentConfig(steps=1)})
    steps = {"good": [[ROME]], "bad": [[call("read", filePath="a")]]}
    async with open_stage(tmp_path / "data", steps, coding=coding, directory=root) as at:
        good = await at.runtime.prompt(at.session_id, "good", format=CITY)
        bad = await at.runtime.prompt(at.session_id, "bad", format=CITY)
    assert at.model.requests[0].tool_choice == "StructuredOutput"
    assert answer_of(good).structured == {"name": "Rome", "people": 3}
    assert isinstance(answer_of(bad).error, StructuredOutputError)
    assert len(at.model.requests) == 2


async def test_a_turn_uses_the_format_of_any_of_its_prompts(tmp_path: Path) -> None:
    steps = {"hello": [[ROME]]}
    async with open_stage(tmp_path, steps) as at:
        await at.runtime.send(at.session_id, "go", format=CITY, wakes=False)
        entry = await at.prompt("hello")
    assert answer_of(entry).structured == {"name": "Rome", "people": 3}
    assert len(at.model.requests) == 1


async def test_an_abort_ends_the_repeated_tries(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script([WRONG], [say("I beg"), pause(3600)])) as at:
        await at.runtime.send(at.session_id, "go", format=CITY)
        await at.listener.until_text("I beg")
        assert await at.abort()
        entry = (await at.messages())[-1]
    assert isinstance(answer_of(entry).error, MessageAbortedError)
    assert len(at.model.requests) == 2


async def test_a_failure_of_the_provider_is_not_tried_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script([fail("Nope.", status=400)])) as at:
        entry = await go(at)
    assert isinstance(answer_of(entry).error, APIError)
    assert len(at.model.requests) == 1


class City(Struct):
    name: str
    twins: "list[City]" = []


@pytest.mark.parametrize(
    ("format", "given", "value"),
    [
        (
            City,
            {"name": "Rome", "twins": [{"name": "Paris"}]},
            {"name": "Rome", "twins": [{"name": "Paris"}]},
        ),
        ({"type": "array", "items": {"type": "integer"}}, {"answer": [1, 2]}, [1, 2]),
        ({"enum": ["yes", "no"]}, {"answer": "yes"}, "yes"),
        (
            {"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "string"}}},
            {"answer": "x"},
            "x",
        ),
        (
            {"type": "json_schema", "schema": CITY, "retryCount": 1},
            {"name": "a", "people": 1},
            {"name": "a", "people": 1},
        ),
    ],
)
async def test_a_format_may_be_a_type_or_any_schema(
    tmp_path: Path, format: Any, given: Any, value: Any
) -> None:
    async with open_stage(tmp_path, script([call("StructuredOutput", **given)])) as at:
        entry = await go(at, format)
    assert at.model.requests[0].tools[0].parameters["type"] == "object"
    assert answer_of(entry).structured == value


@pytest.mark.parametrize(
    ("format", "said"),
    [
        ({"type": "nothing"}, "not a valid JSON schema: at /type"),
        ({"$ref": "https://example.test/a.json"}, "external references are not fetched"),
        ({"type": "object", "$ref": "file:///etc/passwd"}, "external references are not fetched"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "not a valid JSON schema"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "not a valid JSON schema"),
        ({"type": "array", "items": {"$ref": "#"}}, "may refer only to its own"),
        (JsonFormat(schema=CITY, retry_count=-1), "retry_count must be a number"),
        (JsonFormat(schema=CITY, retry_count=99), "retry_count must be a number"),
        ({"type": "json_schema"}, "not a valid output format"),
        ("json", "a format must be a JSON schema"),
        (object, "has no JSON schema"),
        ({"const": float("nan"), "type": object()}, "no JSON form"),
        ({"enum": ["x" * 300_000]}, "more than 256 KiB"),
    ],
)
async def test_a_prompt_with_an_invalid_format_is_refused(tmp_path: Path, format: Any, said: str) -> None:
    async with open_stage(tmp_path, {}) as at:
        with pytest.raises(InvalidInput, match=said):
            await go(at, format)
        assert await at.messages() == ()


async def test_a_pattern_with_endless_backtracking_ends_in_an_error(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(a|a?)+\1$"}}}
    async with open_stage(tmp_path, script([call("StructuredOutput", a="a" * 500 + "!")])) as at:
        entry = await go(at, JsonFormat(schema=schema, retry_count=0))
    assert isinstance(answer_of(entry).error, StructuredOutputError)


@pytest.mark.spec("S-07")
async def test_a_crash_between_two_tries_keeps_the_format_and_the_count(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script([WRONG], [say("I beg"), pause(3600)])) as at:
        await at.runtime.send(at.session_id, "go", format=CITY)
        await at.listener.until_text("I beg")
    model = ScriptedModel(script(*[[WRONG]] * 9))
    entries = await resume_session(tmp_path, at.session_id, model)
    error = answer_of(entries[-1]).error
    assert isinstance(error, StructuredOutputError)
    assert error.data.retries == 2
    assert len(model.requests) == 2
