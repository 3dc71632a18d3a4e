"""What is sent to OpenAI's chat completions."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import (
    Attachment,
    ChatRequest,
    ModelTurn,
    Options,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.openai.request import write_body
from asyncagents.testing.provider_check import openai_refusal
from tests.support.llm.conversation import CONVERSATION, ODD_NAMES, SYSTEM, TOOLS

GOLDEN = Path(__file__).parent / "golden" / "openai.json"
ENDPOINT = Endpoint(provider_id="acme", base_url="https://api.acme.test/v1")
OWN = {"openai": {"field": "reasoning_content", "model": "sage-1"}}


def body(
    *messages: RequestMessage, endpoint: Endpoint = ENDPOINT, model: str = "sage-1", **given: Any
) -> dict[str, Any]:
    request = ChatRequest(
        model=ModelRef(provider_id="acme", model_id=model), messages=messages, options=Options(**given)
    )
    return write_body(endpoint, request)


def test_a_whole_request_is_written_as_recorded() -> None:
    request = ChatRequest(
        model=ModelRef(provider_id="acme", model_id="sage-1"),
        messages=CONVERSATION,
        tools=TOOLS,
        system=SYSTEM,
        options=Options(temperature=0.2, top_p=0.9, max_output=500, body={"seed": 7}),
    )
    assert write_body(ENDPOINT, request) == json.loads(GOLDEN.read_text())


def test_a_request_of_one_text_has_nothing_that_was_not_asked_for() -> None:
    assert body(UserTurn("hi")) == {
        "model": "sage-1",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("base_url", "model", "field"),
    [
        ("https://api.openai.com/v1", "gpt-5.1-mini", "max_completion_tokens"),
        ("https://api.openai.com/v1", "o3", "max_completion_tokens"),
        ("https://me.openai.azure.com/openai/v1", "gpt-6", "max_completion_tokens"),
        ("https://api.openai.com/v1", "gpt-4o", "max_tokens"),
        ("https://openrouter.ai/api/v1", "openai/gpt-5", "max_tokens"),
        ("http://localhost:11434/v1", "o1-clone", "max_tokens"),
        ("https://api.openai.com/v1", "omni-moderation", "max_tokens"),
    ],
)
def test_the_limit_of_an_answer_has_the_name_that_the_model_wants(
    base_url: str, model: str, field: str
) -> None:
    endpoint = Endpoint(provider_id="acme", base_url=base_url)
    limits = {name for name in body(endpoint=endpoint, model=model, max_output=9) if name.startswith("max_")}
    assert limits == {field}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("find", {"type": "function", "function": {"name": "find"}}),
        (None, None),
    ],
)
def test_a_tool_is_forced_where_there_are_tools(choice: str | None, sent: Any) -> None:
    model = ModelRef(provider_id="acme", model_id="sage-1")
    request = ChatRequest(model=model, messages=(UserTurn("Hi"),), tools=TOOLS, tool_choice=choice)
    assert write_body(ENDPOINT, request).get("tool_choice") == sent
    assert "tool_choice" not in write_body(ENDPOINT, replace(request, tools=()))


def test_the_agents_fields_win_over_the_operators_and_both_over_ours() -> None:
    endpoint = Endpoint(provider_id="acme", base_url="", body={"a": 1, "b": 1, "temperature": 1})
    written = body(endpoint=endpoint, temperature=0, body={"b": 2, "stream_options": None})
    assert written["a"] == 1
    assert written["b"] == 2
    assert written["temperature"] == 1
    assert "stream_options" not in written


def test_images_and_documents_are_sent_beside_the_text() -> None:
    files = (
        Attachment("image/png", "data:image/png;base64,aGk=", "a.png"),
        Attachment("image/webp", "https://a.test/b.webp"),
        Attachment("application/pdf", "data:application/pdf;base64,aGk=", "c.pdf"),
    )
    (message,) = body(UserTurn("look", files))["messages"]
    assert message["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://a.test/b.webp"}},
        {"type": "file", "file": {"filename": "c.pdf", "file_data": "data:application/pdf;base64,aGk="}},
    ]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (Attachment("video/mp4", "data:video/mp4;base64,aGk=", "film.mp4"), "film.mp4 (video/mp4)"),
        (Attachment("image/svg+xml", "data:image/svg+xml,hi", "a.svg"), "a.svg:\nhi"),
        (Attachment("image/svg+xml", "https://a.test/a.svg", "a.svg"), "a.svg (image/svg+xml)"),
        (Attachment("application/pdf", "https://a.test/c.pdf"), "at https://a.test/c.pdf"),
        (Attachment("image/png", "file:///a.png", "a.png"), "a.png (image/png)"),
        (Attachment("text/plain", "data:,hello", "a.txt"), "a.txt:\nhello"),
    ],
)
def test_a_file_that_the_wire_cannot_carry_becomes_a_text(file: Attachment, said: str) -> None:
    (message,) = body(UserTurn("", (file,)))["messages"]
    (block,) = message["content"]
    assert block["type"] == "text"
    assert said in block["text"]


def test_a_step_of_thoughts_alone_is_not_sent() -> None:
    assert body(UserTurn("hi"), ModelTurn((ThinkingBlock("hm"),)))["messages"] == [
        {"role": "user", "content": "hi"}
    ]


def test_a_step_that_called_keeps_the_thoughts_of_a_model_that_wants_them_back() -> None:
    """DeepSeek refuses the history of a conversation that lost them, also where they were empty."""
    first = ModelTurn((ThinkingBlock("hm", OWN), ToolCallBlock("a", "ls", {})))
    second = ModelTurn((ToolCallBlock("b", "ls", {}),))
    last = ModelTurn((ThinkingBlock("so", OWN), TextBlock("done")))
    messages = body(UserTurn("x"), first, ToolTurn("a", "ls", "1"), second, ToolTurn("b", "ls", "2"), last)[
        "messages"
    ]
    assert [message.get("reasoning_content") for message in messages] == [None, "hm", None, "", None, None]


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"openai": {"field": "reasoning_content", "model": "other"}},
        {"anthropic": {"signature": "x", "model": "sage-1"}},
    ],
)
def test_thoughts_of_another_model_are_not_sent(metadata: dict[str, Any] | None) -> None:
    step = ModelTurn((ThinkingBlock("hm", metadata), ToolCallBlock("a", "ls", {})))
    assert "hm" not in json.dumps(body(UserTurn("x"), step, ToolTurn("a", "ls", "1")))


def test_an_id_that_is_too_long_is_cut_the_same_way_in_the_call_and_its_result() -> None:
    long = ["call_" + "x" * 60 + end for end in "ab"]
    step = ModelTurn(tuple(ToolCallBlock(call_id, "ls", {}) for call_id in long))
    messages = body(step, *(ToolTurn(call_id, "ls", "") for call_id in long))["messages"]
    made = [call["id"] for call in messages[0]["tool_calls"]]
    assert made == [message["tool_call_id"] for message in messages[1:]]
    assert len(set(made)) == 2
    assert all(len(call_id) <= 40 for call_id in made)


def test_an_invalid_tool_name_is_replaced_by_one_that_the_wire_accepts() -> None:
    for tool, name in ODD_NAMES.items():
        written = body(UserTurn("x"), ModelTurn((ToolCallBlock("a", tool, {}),)), ToolTurn("a", tool, "no"))
        assert written["messages"][1]["tool_calls"][0]["function"]["name"] == name
        assert openai_refusal(written, {}) is None


def test_a_request_repeats_the_messages_of_the_one_before_it() -> None:
    for end in range(1, len(CONVERSATION)):
        before, after = body(*CONVERSATION[:end])["messages"], body(*CONVERSATION[: end + 1])["messages"]
        assert after[: len(before)] == before


@pytest.mark.spec("X-04", "C-02")
def test_files_of_results_follow_all_results_of_their_step() -> None:
    image = Attachment("image/png", "data:image/png;base64,AAAA", "dot.png")
    step = ModelTurn((ToolCallBlock("a", "see", {}), ToolCallBlock("b", "add", {})))
    told = (UserTurn("go"), step, ToolTurn("a", "see", "[a dot]", files=(image,)), ToolTurn("b", "add", "3"))
    first = body(*told)["messages"]
    assert [message["role"] for message in first] == ["user", "assistant", "tool", "tool", "user"]
    assert first[2]["content"] == "[a dot]"
    assert first[4]["content"] == [
        {"type": "text", "text": "[Files of the result of see, call a:]"},
        {"type": "image_url", "image_url": {"url": image.url}},
    ]
    later = body(*told, ModelTurn((TextBlock("A dot."),)), UserTurn("and?"))["messages"]
    assert later[: len(first)] == first
    assert openai_refusal(body(*told), {}) is None
