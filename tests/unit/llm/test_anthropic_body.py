"""What is sent to Anthropic's Messages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.anthropic.request import CLOSING, OPENING, write_body
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import (
    Attachment,
    Block,
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
from asyncagents.testing.provider_check import anthropic_refusal
from tests.support.llm.conversation import CONVERSATION, FOREIGN, HIDDEN, ODD_NAMES, SIGNED, SYSTEM, TOOLS

GOLDEN = Path(__file__).parent / "golden" / "anthropic.json"
ENDPOINT = Endpoint(provider_id="acme", base_url="https://api.acme.test/v1")
MODEL = ModelRef(provider_id="acme", model_id="sage-1")
MARK = {"type": "ephemeral"}


def body(*messages: RequestMessage, endpoint: Endpoint = ENDPOINT, **given: Any) -> dict[str, Any]:
    return write_body(endpoint, ChatRequest(model=MODEL, messages=messages, options=Options(**given)))


def plain(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the marks of the cache, which move on with every request."""
    return [
        {
            **turn,
            "content": [
                {k: v for k, v in block.items() if k != "cache_control"} for block in turn["content"]
            ],
        }
        for turn in turns
    ]


def test_a_whole_request_is_written_as_recorded() -> None:
    request = ChatRequest(
        model=MODEL,
        messages=CONVERSATION,
        tools=TOOLS,
        system=SYSTEM,
        options=Options(temperature=0.2, top_p=0.9, max_output=500, body={"metadata": {"user_id": "u"}}),
    )
    assert write_body(ENDPOINT, request) == json.loads(GOLDEN.read_text())


def test_a_request_of_one_text_has_nothing_that_was_not_asked_for() -> None:
    assert body(UserTurn("hi")) == {
        "model": "sage-1",
        "max_tokens": 8192,
        "stream": True,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}
        ],
    }  # fmt: skip


def test_results_of_a_step_share_one_message_with_the_next_user_text() -> None:
    step = ModelTurn((ToolCallBlock("a", "ls", {}), ToolCallBlock("b", "ls", {})))
    turns = body(UserTurn("x"), step, ToolTurn("a", "ls", "1"), ToolTurn("b", "ls", "2"), UserTurn("go on"))[
        "messages"
    ]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["type"] for block in turns[-1]["content"]] == ["tool_result", "tool_result", "text"]


@pytest.mark.parametrize(
    "messages", [(), (ModelTurn((TextBlock("hi"),)),), (UserTurn("  "), ModelTurn((TextBlock("hi"),)))]
)
def test_a_conversation_begins_with_the_user(messages: tuple[RequestMessage, ...]) -> None:
    first = plain(body(*messages)["messages"])[0]
    assert first == {"role": "user", "content": [{"type": "text", "text": OPENING}]}


def test_thoughts_go_back_only_to_the_model_that_signed_them() -> None:
    own, foreign = (
        ModelTurn((ThinkingBlock("hm", SIGNED), TextBlock("a"))),
        ModelTurn((ThinkingBlock("hm", FOREIGN), TextBlock("b"))),
    )
    bare = ModelTurn((ThinkingBlock("hm"), TextBlock("c")))
    said = [
        block["type"] for block in plain(body(UserTurn("x"), own, foreign, bare)["messages"])[1]["content"]
    ]
    assert said == ["thinking", "text", "text", "text"]


def test_a_step_of_thoughts_alone_is_not_sent() -> None:
    assert len(body(UserTurn("x"), ModelTurn((ThinkingBlock("hm", SIGNED),)))["messages"]) == 1


@pytest.mark.parametrize("behind", [(), (TextBlock("  "),), (ThinkingBlock("", HIDDEN),)])
def test_a_step_does_not_end_in_thoughts(behind: tuple[Block, ...]) -> None:
    """An answer that was cut off while it thought; the wire refuses it as it is."""
    step = ModelTurn(
        (ThinkingBlock("hm", SIGNED), TextBlock("I look"), ThinkingBlock("well", SIGNED), *behind)
    )
    turn = body(UserTurn("x"), step, UserTurn("y"))["messages"][1]
    assert [block["type"] for block in turn["content"]] == ["thinking", "text"]


@pytest.mark.parametrize("last", [(), (UserTurn(" "),), (ModelTurn((ThinkingBlock("hm", SIGNED),)),)])
def test_a_conversation_ends_with_the_user(last: tuple[RequestMessage, ...]) -> None:
    turns = plain(body(UserTurn("x"), ModelTurn((TextBlock("hi"),)), *last)["messages"])
    assert turns[-1] == {"role": "user", "content": [{"type": "text", "text": CLOSING}]}
    assert len(turns) == 3


def test_an_invalid_tool_name_is_replaced_by_one_that_the_wire_accepts() -> None:
    for tool, name in ODD_NAMES.items():
        turns = body(UserTurn("x"), ModelTurn((ToolCallBlock("a", tool, {}),)), ToolTurn("a", tool, "no"))
        assert turns["messages"][1]["content"][0]["name"] == name


def test_thinking_gets_room_and_no_sampling_options() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 16_000}}
    written = body(UserTurn("x"), temperature=0.5, top_p=0.5, body=thinking)
    assert written["max_tokens"] == 8192 + 16_000
    assert not {"temperature", "top_p"} & set(written)
    assert body(UserTurn("x"), max_output=32_000, body=thinking)["max_tokens"] == 32_000
    assert body(UserTurn("x"), body={**thinking, "max_tokens": 20_000})["max_tokens"] == 20_000
    assert body(UserTurn("x"), temperature=0.5, body={"thinking": {"type": "disabled"}})["temperature"] == 0.5


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("required", {"type": "any"}), ("find", {"type": "tool", "name": "find"}), (None, None)],
)
def test_a_tool_is_forced_unless_the_model_thinks(choice: str | None, sent: Any) -> None:
    request = ChatRequest(model=MODEL, messages=(UserTurn("Hi"),), tools=TOOLS, tool_choice=choice)
    thinking = Options(body={"thinking": {"type": "enabled", "budget_tokens": 2000}})
    assert write_body(ENDPOINT, request).get("tool_choice") == sent
    for sends in (replace(request, options=thinking), replace(request, tools=())):
        written = write_body(ENDPOINT, sends)
        assert "tool_choice" not in written
        assert anthropic_refusal(written, {"anthropic-version": "2023-06-01"}) is None


def test_the_agents_fields_win_over_the_operators_and_both_over_ours() -> None:
    endpoint = Endpoint(provider_id="acme", base_url="", body={"a": 1, "b": 1, "max_tokens": 5})
    written = body(UserTurn("x"), endpoint=endpoint, body={"b": 2})
    assert written["a"] == 1
    assert written["b"] == 2
    assert written["max_tokens"] == 5


def test_images_and_documents_are_sent_as_bytes_or_as_a_url() -> None:
    files = (
        Attachment("image/jpg", "data:image/jpg;base64,aGk=", "a.jpg"),
        Attachment("image/png", "https://a.test/b.png"),
        Attachment("application/pdf", "https://a.test/c.pdf", "c.pdf"),
    )
    assert plain(body(UserTurn("look", files))["messages"])[0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://a.test/b.png"}},
        {"type": "document", "source": {"type": "url", "url": "https://a.test/c.pdf"}, "title": "c.pdf"},
        {"type": "text", "text": "look"},
    ]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (Attachment("video/mp4", "data:video/mp4;base64,aGk=", "film.mp4"), "film.mp4 (video/mp4)"),
        (Attachment("image/bmp", "data:image/bmp;base64,aGk=", "a.bmp"), "a.bmp (image/bmp)"),
        (Attachment("image/png", "file:///a.png", "a.png"), "a.png (image/png)"),
        (Attachment("text/plain", "data:,hello", "a.txt"), "a.txt:\nhello"),
    ],
)
def test_a_file_that_the_wire_cannot_carry_becomes_a_text(file: Attachment, said: str) -> None:
    (block,) = body(UserTurn("", (file,)))["messages"][0]["content"]
    assert block["type"] == "text"
    assert said in block["text"]


def test_repeated_or_invalid_call_ids_of_another_provider_are_rewritten() -> None:
    """Kimi counts from 0 in every step, and with characters that are refused here."""
    step = ModelTurn((ToolCallBlock("functions.ls:0", "ls", {}),))
    result = ToolTurn("functions.ls:0", "ls", "x")
    turns = body(UserTurn("x"), step, result, step, result)["messages"]
    made = [block["id"] for turn in turns for block in turn["content"] if block["type"] == "tool_use"]
    answered = [
        block["tool_use_id"] for turn in turns for block in turn["content"] if block["type"] == "tool_result"
    ]
    assert made == answered == ["functions_ls_0", "functions_ls_0_2"]


def test_a_request_repeats_the_messages_of_the_one_before_it() -> None:
    for end in range(1, len(CONVERSATION)):
        before = [
            turn
            for turn in plain(body(*CONVERSATION[:end])["messages"])
            if turn["content"] != [{"type": "text", "text": CLOSING}]
        ]
        after = plain(body(*CONVERSATION[: end + 1])["messages"])
        assert after[: len(before) - 1] == before[:-1]
        assert after[len(before) - 1]["content"][: len(before[-1]["content"])] == before[-1]["content"]


TEXTS = st.sampled_from(["", " ", "\n", "hi", "well  "])
IDS = st.sampled_from(["a", "b", "functions.x:0", "", "é"])
STEPS = st.lists(
    TEXTS.map(TextBlock)
    | st.builds(ThinkingBlock, TEXTS, st.sampled_from([None, SIGNED, FOREIGN]))
    | st.builds(ToolCallBlock, IDS, st.sampled_from(["ls", "", "a.b c"]), st.just({})),
    max_size=4,
)
FILES = st.lists(
    st.sampled_from([Attachment("image/png", "data:,x"), Attachment("text/plain", "data:,%20", "a.txt")]),
    max_size=2,
)


@st.composite
def told(draw: st.DrawFn) -> list[RequestMessage]:
    """Any history that can be: users, and steps with a result for each of their calls."""
    history: list[RequestMessage] = []
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            history.append(UserTurn(draw(TEXTS), tuple(draw(FILES))))
            continue
        step = ModelTurn(tuple(draw(STEPS)))
        calls = {call.id: call for call in step.calls}
        blocks = [block for block in step.blocks if not isinstance(block, ToolCallBlock)]
        history.append(ModelTurn((*blocks, *calls.values())))
        history += [ToolTurn(call_id, "ls", draw(TEXTS), failed=draw(st.booleans())) for call_id in calls]
    return history


@given(told())
def test_any_history_is_written_as_the_wire_wants_it(history: list[RequestMessage]) -> None:
    request = ChatRequest(model=MODEL, messages=history, tools=TOOLS, system=SYSTEM)
    written = write_body(ENDPOINT, request)
    turns = written["messages"]
    assert anthropic_refusal(written, {"anthropic-version": "2023-06-01"}) is None
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"] * (
        len(turns) % 2
    )
    made: list[str] = []
    open_calls: set[str] = set()
    for turn in turns:
        assert turn["content"]
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        assert set(results) == open_calls
        assert [block["type"] for block in turn["content"][: len(results)]] == ["tool_result"] * len(results)
        calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        open_calls = set(calls)
        made += calls
        assert all(block["text"].strip() for block in turn["content"] if block["type"] == "text")
    assert not open_calls
    assert len(made) == len(set(made))
    assert all(re.fullmatch("[a-zA-Z0-9_-]+", call_id) for call_id in made)
    assert json.dumps(written).count("cache_control") <= 4


@pytest.mark.spec("X-04", "C-02")
def test_files_of_a_result_are_blocks_of_it() -> None:
    image = Attachment("image/png", "data:image/png;base64,AAAA", "dot.png")
    paper = Attachment("application/pdf", "data:application/pdf;base64,BBBB", "paper.pdf")
    step = ModelTurn((ToolCallBlock("a", "see", {}),))
    sent = body(UserTurn("go"), step, ToolTurn("a", "see", "[two]", files=(image, paper)))
    (result,) = plain(sent["messages"])[-1]["content"]
    assert result["content"] == [
        {"type": "text", "text": "[two]"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "BBBB"},
            "title": "paper.pdf",
        },
    ]
    assert anthropic_refusal(sent, {"anthropic-version": "2023-06-01"}) is None
