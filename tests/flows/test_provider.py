"""A whole turn over real HTTP: both wires, tools, prices, attachments, and what goes wrong on the way."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

import asyncagents
from asyncagents import Attachment, PartUpdated, ScriptedModel
from asyncagents.domain.conversation.failure import APIError, ProviderAuthError
from asyncagents.domain.conversation.part import ReasoningPart, RetryPart, StepFinishPart
from asyncagents.errors import InvalidInput
from asyncagents.llm.roster import NO_MODEL
from asyncagents.testing.provider import Reply, TokenUsage, ToolUse, open_provider
from tests.support.provider import PROVIDER_KEY, each_wire, provider_config
from tests.support.runtime import answer_of, open_runtime
from tests.support.tool import ECHO
from tests.support.wait import PATIENCE


@each_wire
@pytest.mark.spec("C-02", "C-07", "S-02")
async def test_a_turn_stores_reasoning_tool_calls_tokens_and_cost(tmp_path: Path, wire: str) -> None:
    steps = [
        Reply(
            text="I look.",
            reasoning="Hm.",
            tools=(ToolUse("echo", {"text": "a"}), ToolUse("echo", {"text": "b"})),
            usage=TokenUsage(input=100, output=20),
        ),
        Reply(
            text="Both.", chunks=3, usage=TokenUsage(input=50, output=10, cache_read=1000, cache_write=200)
        ),
    ]
    async with (
        open_provider({"go": steps}, key=PROVIDER_KEY) as provider,
        open_runtime(
            tmp_path, model=f"{wire}/small", config=provider_config(provider, tmp_path), tools=[ECHO]
        ) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        answer = await runtime.prompt(session.id, "go")
        entries = await runtime.messages(session.id)
        after = await runtime.session(session.id)

    last = answer_of(answer)
    assert answer.text == "Both."
    assert last.finish == "stop"
    assert last.model_id == "small"
    assert last.provider_id == wire
    assert last.time.completed is not None
    assert last.tokens.cache.read == 1000
    assert last.tokens.output == 10
    assert last.cost == pytest.approx(expected(last.tokens.input, 10, 1000, last.tokens.cache.write))
    assert [part.text for part in entries[1].parts if isinstance(part, ReasoningPart)] == ["Hm."]
    finish = [part for part in answer.parts if isinstance(part, StepFinishPart)]
    assert [(part.reason, part.cost) for part in finish] == [("stop", last.cost)]
    assert after.cost == pytest.approx(last.cost + answer_of(entries[1]).cost)
    assert after.title == "go"
    assert len(provider.requests) == 2


def expected(input: int, output: int, read: int, write: int) -> float:
    return (input * 3 + output * 15 + read * 0.3 + write * 3.75) / 1e6


@each_wire
async def test_a_prompt_may_choose_its_model_and_bring_files(tmp_path: Path, wire: str) -> None:
    picture = Attachment("image/png", "data:image/png;base64,iVBORw0KGgo=", "a.png")
    async with (
        open_provider(key=PROVIDER_KEY) as provider,
        open_runtime(tmp_path, model=f"{wire}/small", config=provider_config(provider, tmp_path)) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        answer = await runtime.prompt(session.id, "look", model=f"{wire}/large", files=[picture])
    (seen,) = provider.requests
    assert seen.body["model"] == "large"
    assert answer_of(answer).model_id == "large"
    assert "iVBORw0KGgo=" in str(seen.body["messages"])


@each_wire
@pytest.mark.spec("C-05")
async def test_a_request_is_tried_again_after_a_temporary_error_of_the_provider(
    tmp_path: Path, wire: str
) -> None:
    stumble = Reply(status=503, error="overloaded", headers={"retry-after-ms": "1"}, times=2)
    async with (
        open_provider({"go": [stumble, Reply(text="Here.")]}, key=PROVIDER_KEY) as provider,
        open_runtime(tmp_path, model=f"{wire}/small", config=provider_config(provider, tmp_path)) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        answer = await runtime.prompt(session.id, "go")
    assert answer.text == "Here."
    assert answer_of(answer).error is None
    assert len(provider.requests) == 3


@each_wire
async def test_a_wrong_key_ends_the_turn_and_is_shown_nowhere(
    tmp_path: Path, wire: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_provider(key="another") as provider,
        open_runtime(tmp_path, model=f"{wire}/small", config=provider_config(provider, tmp_path)) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        answer = await runtime.prompt(session.id, "go")
    assert isinstance(answer_of(answer).error, ProviderAuthError)
    assert len(provider.requests) <= 1
    assert _stored(tmp_path).count(PROVIDER_KEY.encode()) == 0
    assert (PROVIDER_KEY in caplog.text) is False
    assert (PROVIDER_KEY in str(answer)) is False


def _stored(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.rglob("*") if file.is_file())


@each_wire
@pytest.mark.parametrize(
    "poison",
    [Reply(status=400, error="cannot do that", times=1), Reply(finish="content-filter", times=1)],
    ids=["refused", "filtered"],
)
async def test_a_prompt_that_the_provider_refuses_does_not_break_its_session(
    tmp_path: Path, wire: str, poison: Reply
) -> None:
    async with (
        open_provider({"bad": [poison]}, key=PROVIDER_KEY) as provider,
        open_runtime(tmp_path, model=f"{wire}/small", config=provider_config(provider, tmp_path)) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        failed = await runtime.prompt(session.id, "bad")
        again = await runtime.prompt(session.id, "good")
    assert answer_of(failed).error is not None
    assert again.text == "ok"
    assert answer_of(again).error is None


async def test_two_wires_take_turns_in_one_session(tmp_path: Path) -> None:
    first = Reply(text="I look.", reasoning="Hm.", tools=(ToolUse("echo", {"text": "a"}),))
    async with (
        open_provider({"go": [first, Reply(text="One.")]}, key=PROVIDER_KEY) as provider,
        open_runtime(
            tmp_path, model="messages/small", config=provider_config(provider, tmp_path), tools=[ECHO]
        ) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        answers = [await runtime.prompt(session.id, "go")]
        answers += [
            await runtime.prompt(session.id, f"by {w}", model=f"{w}/small") for w in ("chat", "messages")
        ]
    assert [answer.text for answer in answers] == ["One.", "ok", "ok"]
    assert [seen.wire for seen in provider.requests] == ["anthropic", "anthropic", "openai", "anthropic"]


@pytest.mark.parametrize(
    ("model", "says"),
    [("chat/tiny", "small"), ("chad/small", "chat"), ("small", "provider/model"), (None, NO_MODEL)],
)
async def test_an_unusable_model_is_an_error_before_a_file_is_created(
    tmp_path: Path, model: str | None, says: str
) -> None:
    data = tmp_path / "data"
    async with open_provider(key=PROVIDER_KEY) as provider:
        known = provider_config(provider, data)
        known = known if model else replace(known, provider={})
        with pytest.raises(InvalidInput) as raised:
            async with asyncagents.open_runtime(data, model=model, config=known):
                pass
    assert says in str(raised.value)
    assert not (data / "asyncagents.db").exists()


@pytest.mark.spec("C-05")
async def test_an_unreachable_provider_is_a_retryable_error(tmp_path: Path) -> None:
    async with open_provider() as provider:
        known = provider_config(provider, tmp_path)
    async with open_runtime(tmp_path, model="chat/small", config=known) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.send(session.id, "go")
        async with asyncio.timeout(PATIENCE), runtime.events(session.id) as events:
            while not isinstance(event := await anext(events), PartUpdated) or not isinstance(
                event.part, RetryPart
            ):
                pass
        assert await runtime.abort(session.id)
    assert isinstance(event.part, RetryPart)
    assert event.part.error.data.is_retryable is True
    assert event.part.error.data.status_code is None


async def test_a_chosen_model_stays_chosen_also_for_prompts_of_a_client(
    tmp_path: Path,
) -> None:
    async with (
        open_provider(key=PROVIDER_KEY) as provider,
        open_runtime(tmp_path, model="chat/small", config=provider_config(provider, tmp_path)) as runtime,
        open_runtime(tmp_path, serve=False, config=provider_config(provider, tmp_path)) as client,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "one", model="messages/large")
        await runtime.prompt(session.id, "two")
        answer = await client.prompt(session.id, "three")
    assert [(seen.wire, seen.body["model"]) for seen in provider.requests] == [("anthropic", "large")] * 3
    assert answer_of(answer).model_id == "large"


@pytest.mark.parametrize("blank", ["", " \n\t "])
async def test_a_blank_prompt_is_refused(tmp_path: Path, blank: str) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({})) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        with pytest.raises(InvalidInput, match="needs some text"):
            await runtime.prompt(session.id, blank)


@pytest.mark.spec("C-05")
async def test_a_model_server_that_does_not_run_is_tried_once_more_and_named(tmp_path: Path) -> None:
    async with open_provider({}) as provider:
        settings = provider_config(provider, tmp_path)
    async with (
        open_runtime(tmp_path, model="chat/small", config=settings) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        answer = await runtime.prompt(session.id, "go")
    error = answer_of(answer).error
    assert isinstance(error, APIError)
    assert error.data.message == f"{provider.url} refuses connections: is the model server running?"
    assert [part.attempt for part in answer.parts if isinstance(part, RetryPart)] == [1]
