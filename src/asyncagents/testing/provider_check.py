"""Checks of requests that the real providers refuse with a 400, so that tests catch invalid ones."""

from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z")]
"""A tool name, in the list of tools and in the calls of a history."""

# From this version on Anthropic refuses sampling parameters, even with their default values.
NO_SAMPLING = "2026-10-21"
THOUGHTS = ("thinking", "redacted_thinking")
SAMPLING = ("temperature", "top_p", "top_k")


class ChatFunction(Struct):
    name: Name


class ChatCall(Struct):
    id: Text
    function: ChatFunction | None = None


class ChatTool(Struct):
    function: ChatFunction | None = None


class ChatMessage(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None


class ChatBody(Struct):
    """The checked fields of a chat completion request."""

    model: Text
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    tools: Annotated[list[ChatTool], Meta(min_length=1)] | None = None


class MessagesBlock(Struct):
    type: str
    text: str | None = None
    signature: str | None = None
    id: str = ""
    tool_use_id: str = ""
    name: Name | None = None


class MessagesMessage(Struct):
    role: Literal["user", "assistant", "system"]
    content: Text | Annotated[list[MessagesBlock], Meta(min_length=1)]

    @property
    def blocks(self) -> list[MessagesBlock]:
        return [MessagesBlock("text", self.content)] if isinstance(self.content, str) else self.content


class MessagesTool(Struct):
    name: Name | None = None


class MessagesBody(Struct):
    """The checked fields of an Anthropic request."""

    model: Text
    max_tokens: Annotated[int, Meta(ge=1)]
    messages: Annotated[list[MessagesMessage], Meta(min_length=1)]
    tools: list[MessagesTool] | None = None


def openai_refusal(body: dict[str, Any], headers: Mapping[str, str]) -> str | None:
    """Return why OpenAI would refuse this request; None if it would not."""
    del headers
    try:
        chat = msgspec.convert(body, ChatBody)
    except msgspec.ValidationError as error:
        return str(error)
    if chat.stream_options is not None and not chat.stream:
        return "stream_options is allowed only with stream: true"
    return next(_unanswered_calls(chat.messages), None)


def anthropic_refusal(body: dict[str, Any], headers: Mapping[str, str]) -> str | None:
    """Return why Anthropic would refuse this request; None if it would not."""
    version = headers.get("anthropic-version")
    if version is None:
        return "anthropic-version: header is required"
    try:
        messages = msgspec.convert(body, MessagesBody).messages
    except msgspec.ValidationError as error:
        return str(error)
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if forced and not body.get("tools"):
        return "tool_choice: may only be specified while providing tools"
    if forced and body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        return "Thinking may not be enabled when tool_choice forces tool use."
    refused = [name for name in SAMPLING if name in body] if version >= NO_SAMPLING else []
    if refused:
        return f"{refused[0]}: Extra inputs are not permitted"
    # Messages of one role in a row are one turn.
    turns = [
        [block for message in group for block in message.blocks]
        for _, group in groupby(messages, key=lambda message: message.role)
    ]
    wrong = chain(_bad_blocks(turns), _unpaired_tools(turns), _bad_ends(messages))
    return next(wrong, None)


def _unanswered_calls(messages: list[ChatMessage]) -> Iterator[str]:
    """Yield violations: the results of calls must follow their message directly, each once."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if message.role != "tool":
            if open_calls:
                yield f"messages[{number}] comes before the tool messages for {', '.join(open_calls)}"
            open_calls = [call.id for call in message.tool_calls or ()]
        elif message.tool_call_id in open_calls:
            open_calls.remove(message.tool_call_id)
        else:
            yield f"messages[{number}] answers {message.tool_call_id}, which was not called right before it"
    if open_calls:
        yield f"there are no tool messages for {', '.join(open_calls)}"


def _bad_ends(messages: list[MessagesMessage]) -> Iterator[str]:
    for number, message in enumerate(messages):
        last = message.blocks[-1].type
        if message.role == "assistant" and last in THOUGHTS:
            yield f"messages.{number}: the final block of an assistant message cannot be {last}"
    if messages[-1].role == "assistant":
        yield "the conversation must end with a user message"


def _bad_blocks(turns: list[list[MessagesBlock]]) -> Iterator[str]:
    for number, blocks in enumerate(turns):
        for block in blocks:
            if block.type == "text" and not block.text:
                yield f"messages.{number}: text content blocks must be non-empty"
            if block.type == "thinking" and not block.signature:
                yield f"messages.{number}: a thinking block goes back with the signature it came with"


def _unpaired_tools(turns: list[list[MessagesBlock]]) -> Iterator[str]:
    """Yield violations: the turn after a call must begin with its result, and a result needs its call."""
    called: set[str] = set()
    for number, blocks in enumerate([*turns, []]):
        results = {block.tool_use_id for block in blocks if block.type == "tool_result"}
        if missing := sorted(called - results):
            yield f"messages.{number - 1}: tool_use without tool_result right after it: {', '.join(missing)}"
        if unknown := sorted(results - called):
            yield f"messages.{number}: tool_result without tool_use right before it: {', '.join(unknown)}"
        others = [block.type != "tool_result" for block in blocks]
        if results and others != sorted(others):
            yield f"messages.{number}: tool_result blocks come before all other blocks"
        called = {block.id for block in blocks if block.type == "tool_use"}
