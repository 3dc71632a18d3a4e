"""The long tail's most asked for: Google, in its own wire, over real HTTP."""

import pytest

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import (
    ChatRequest,
    ModelTurn,
    Options,
    ReasoningDelta,
    RequestMessage,
    StepFinish,
    TextDelta,
    ToolCallBlock,
    ToolCallReady,
    ToolSpec,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.pydantic_ai.adapter import PydanticAiModel
from tests.support.llm.raw_server import open_raw_server

KEY = "sk-very-secret-0123456789"
WEATHER = ToolSpec(
    "weather", "Tells the weather.", {"type": "object", "properties": {"at": {"type": "string"}}}
)
# A library behind Google's, compiled in front of a test that takes warnings for errors.
GOOGLE = pytest.mark.filterwarnings("ignore:.*invalid escape sequence")


THINKING = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hm.", "thought": True}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "I look."}]}}]},
    {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"id": "f1", "name": "weather", "args": {"at": "Rome"}}}],
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 20,
            "cachedContentTokenCount": 8,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 3,
            "totalTokenCount": 30,
        },
    },
]


HISTORY: list[RequestMessage] = [
    UserTurn("Rome, and here?"),
    ModelTurn((ToolCallBlock("c1", "weather", {"at": "Rome"}), ToolCallBlock("c2", "weather", {}))),
    ToolTurn("c1", "weather", "Sunny."),
    ToolTurn("c2", "weather", "Where is here?", failed=True),
    UserTurn("Never mind."),
]


@GOOGLE
async def test_google_is_reached_with_its_own_wire() -> None:
    async with open_raw_server(THINKING) as server:
        endpoint = Endpoint(provider_id="google", base_url=f"{server.url}/v1beta", api_key=Secret(KEY))
        tail = PydanticAiModel("google", endpoint, {})
        body = {"thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True}}
        request = ChatRequest(
            messages=HISTORY,
            model=ModelRef(provider_id="google", model_id="gemini-3.8-flash"),
            tools=(WEATHER,),
            system="Be brief.",
            options=Options(body=body),
        )
        events = [event async for event in tail.stream(request)]
        await tail.close()
    [seen] = server.requests
    assert "/models/gemini-3.8-flash:streamGenerateContent" in seen.path
    assert "beta/v1" not in seen.path
    assert seen.headers["x-goog-api-key"] == KEY
    assert seen.body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert seen.body["generationConfig"]["thinkingConfig"] == {
        "thinking_level": "LOW",
        "include_thoughts": True,
    }
    _, _, results, last = seen.body["contents"]
    responses = [part["functionResponse"]["response"] for part in results["parts"]]
    assert responses == [{"return_value": "Sunny."}, {"error": "Where is here?"}]
    assert last["parts"] == [{"text": "Never mind."}]
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["Hm."]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["I look."]
    assert [event.input for event in events if isinstance(event, ToolCallReady)] == [{"at": "Rome"}]
    cache = CacheTokens(read=8, write=0)
    assert events[-2] == StepFinish("stop", Tokens(input=12, output=7, reasoning=3, cache=cache, total=30))
