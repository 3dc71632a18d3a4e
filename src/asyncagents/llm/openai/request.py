"""Build the request body for OpenAI's chat completions."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, assert_never
from urllib.parse import urlsplit
from zlib import crc32

import msgspec

from asyncagents.llm.http.request import Endpoint, merge_body
from asyncagents.llm.model import (
    Attachment,
    ChatRequest,
    ModelTurn,
    Options,
    ThinkingBlock,
    ToolCallBlock,
    ToolSpec,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.wire.attachment import inline_file, is_remote, mime_of, placeholder_text, text_with_name
from asyncagents.llm.wire.tool_name import wire_name

MAX_ID = 40
"""OpenAI refuses longer call ids, which a session may have from another provider."""


def tool_definitions(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [_tool_json(tool) for tool in tools]


def write_body(
    endpoint: Endpoint,
    request: ChatRequest,
    *,
    tools: Callable[[tuple[ToolSpec, ...]], Any] = tool_definitions,
) -> dict[str, Any]:
    """Build the body; `tools` encodes the tools, e.g. an `EncodedCache`."""
    body: dict[str, Any] = {
        "model": request.model.model_id,
        "messages": [*_system(request.system), *_messages(request)],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": tools(request.tools) if request.tools else None,
        "tool_choice": _tool_choice(request.tool_choice) if request.tools else None,
        "temperature": request.options.temperature,
        "top_p": request.options.top_p,
        **_max_tokens(endpoint, request.model.model_id, request.options),
    }
    return merge_body(body, endpoint, request)


def _system(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": text}] if text else []


def _max_tokens(endpoint: Endpoint, model_id: str, options: Options) -> dict[str, Any]:
    """Return the output limit: OpenAI's reasoning models refuse `max_tokens`, other servers require it."""
    host = urlsplit(endpoint.base_url).hostname or ""
    own = host == "api.openai.com" or host.endswith(".openai.azure.com")
    name = "max_completion_tokens" if own and _is_reasoning_model(model_id) else "max_tokens"
    return {name: options.max_output}


def _is_reasoning_model(model_id: str) -> bool:
    """Return whether the name is `o1`, `o4-mini`, `gpt-5` or a later one of these series."""
    name = model_id.rpartition("/")[2]
    if name[:1] == "o" and name[1:2].isdigit():
        return True
    number = name.removeprefix("gpt-").partition("-")[0].partition(".")[0]
    return name.startswith("gpt-") and number.isdigit() and int(number) >= 5


def _tool_json(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _tool_choice(choice: str | None) -> str | dict[str, Any] | None:
    if choice is None or choice == "required":
        return choice
    return {"type": "function", "function": {"name": choice}}


def _messages(request: ChatRequest) -> Iterator[dict[str, Any]]:
    thinks = False
    shown: list[dict[str, Any]] = []
    for message in request.messages:
        if shown and not isinstance(message, ToolTurn):
            yield {"role": "user", "content": shown}
            shown = []
        match message:
            case UserTurn(text, files):
                yield {"role": "user", "content": _content(text, files)}
            case ModelTurn():
                thought = _own_reasoning(message, request.model.model_id)
                thinks = thinks or thought is not None
                yield from _assistant_messages(message, thought or "" if thinks else None)
            case ToolTurn():
                yield {"role": "tool", "tool_call_id": _wire_id(message.call_id), "content": message.output}
                shown += _result_files(message)
            case _:
                assert_never(message)
    if shown:
        yield {"role": "user", "content": shown}


def _result_files(turn: ToolTurn) -> list[dict[str, Any]]:
    """Return the files of a result: a tool message holds only text, so a user message after the results
    carries the files."""
    if not turn.files:
        return []
    words = f"[Files of the result of {wire_name(turn.tool)}, call {_wire_id(turn.call_id)}:]"
    return [{"type": "text", "text": words}, *map(_file_json, turn.files)]


def _assistant_messages(turn: ModelTurn, thought: str | None) -> Iterator[dict[str, Any]]:
    calls = [_call_json(call) for call in turn.calls]
    if not calls:
        if turn.text:
            yield {"role": "assistant", "content": turn.text}
        return
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "tool_calls": calls}
    # DeepSeek refuses a step with calls that lacks `reasoning_content`, even an empty one.
    if thought is not None:
        message["reasoning_content"] = thought
    yield message


def _own_reasoning(turn: ModelTurn, model_id: str) -> str | None:
    own = {"openai": {"field": "reasoning_content", "model": model_id}}
    thoughts = [block for block in turn.blocks if isinstance(block, ThinkingBlock) and block.metadata == own]
    return "\n".join(thought.text for thought in thoughts) if thoughts else None


def _call_json(call: ToolCallBlock) -> dict[str, Any]:
    function = {"name": wire_name(call.tool), "arguments": msgspec.json.encode(call.input).decode()}
    return {"id": _wire_id(call.id), "type": "function", "function": function}


def _wire_id(call_id: str) -> str:
    if len(call_id) <= MAX_ID:
        return call_id
    return f"{call_id[: MAX_ID - 9]}_{crc32(call_id.encode()):08x}"


def _content(text: str, files: Sequence[Attachment]) -> str | list[dict[str, Any]]:
    if not files:
        return text
    text_parts = [{"type": "text", "text": text}] if text else []
    return [*text_parts, *(_file_json(file) for file in files)]


def _file_json(file: Attachment) -> dict[str, Any]:
    mime = mime_of(file)
    held = inline_file(file)
    if mime.startswith("image/") and mime != "image/svg+xml" and (held is not None or is_remote(file)):
        return {"type": "image_url", "image_url": {"url": held.url if held else file.url}}
    if mime == "application/pdf" and held is not None:
        about = {"filename": file.filename or "file.pdf", "file_data": held.url}
        return {"type": "file", "file": about}
    return {"type": "text", "text": text_with_name(file) or placeholder_text(file)}
