"""Build the request body for Anthropic's Messages API."""

import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, assert_never

from msgspec import Struct

from asyncagents.llm.http.request import Endpoint, merge_body
from asyncagents.llm.model import (
    Attachment,
    Block,
    ChatRequest,
    ModelTurn,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolSpec,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.wire.attachment import inline_file, is_remote, mime_of, placeholder_text, text_with_name
from asyncagents.llm.wire.tool_name import wire_name

MAX_TOKENS = 8192
"""The API requires a number; every model accepts this one."""
CACHED_USER_MESSAGES = 2
OPENING = "(The conversation goes on from here.)"
"""User text inserted before a history that begins with the model: the API requires a user message first."""
CLOSING = "(Please go on.)"
"""User text appended to a history that ends with the model: newer models refuse to continue their text."""

_IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
_THINKING_BLOCKS = frozenset({"redacted_thinking", "thinking"})
_THINKING_MODES = frozenset({"adaptive", "enabled"})
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]")

Json: TypeAlias = dict[str, Any]


class _WireMessage(Struct, frozen=True):
    role: Literal["user", "assistant"]
    blocks: list[Json]


def write_body(endpoint: Endpoint, request: ChatRequest) -> Json:
    options = request.options
    body: Json = {
        "model": request.model.model_id,
        "max_tokens": options.max_output or MAX_TOKENS,
        "stream": True,
        "system": _system(request.system),
        "messages": [
            {"role": turn.role, "content": turn.blocks}
            for turn in _add_cache_control(_wire_messages(request))
        ],
        "tools": _tools(request.tools),
        "tool_choice": _tool_choice(request.tool_choice) if request.tools else None,
        "temperature": options.temperature,
        "top_p": options.top_p,
    }
    given = {**endpoint.body, **options.body}
    return merge_body({**body, **_thinking_overrides(given, body["max_tokens"])}, endpoint, request)


def _thinking_overrides(given: Json, max_tokens: int) -> Json:
    """Return what thinking changes: no sampling options, no forced tool, `max_tokens` above the budget."""
    match given.get("thinking"):
        case {"type": str(kind), **rest} if kind in _THINKING_MODES:
            budget = rest.get("budget_tokens")
            room = max_tokens + budget if isinstance(budget, int) and budget >= max_tokens else max_tokens
            return {"temperature": None, "top_p": None, "tool_choice": None, "max_tokens": room}
        case _:
            return {}


def _system(text: str) -> list[Json] | None:
    return [_with_cache_control({"type": "text", "text": text})] if text.strip() else None


def _tools(tools: tuple[ToolSpec, ...]) -> list[Json] | None:
    listed = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {"type": "object", **tool.parameters},
        }
        for tool in tools
    ]
    return [*listed[:-1], _with_cache_control(listed[-1])] if listed else None


def _tool_choice(choice: str | None) -> Json | None:
    if choice is None:
        return None
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}


def _with_cache_control(block: Json) -> Json:
    """Mark the end of a prefix that the provider caches for the next request."""
    return {**block, "cache_control": {"type": "ephemeral"}}


def _add_cache_control(turns: list[_WireMessage]) -> list[_WireMessage]:
    users = [turn for turn in turns if turn.role == "user"]
    for turn in users[-CACHED_USER_MESSAGES:]:
        turn.blocks[-1] = _with_cache_control(turn.blocks[-1])
    return turns


def _wire_messages(request: ChatRequest) -> list[_WireMessage]:
    """Convert the messages and merge adjacent ones of one role, since the API requires alternating roles."""
    ids = _CallIds()
    turns: list[_WireMessage] = []
    for message in request.messages:
        role, blocks = _message_blocks(message, request.model.model_id, ids)
        if not blocks:
            continue
        if turns and turns[-1].role == role:
            turns[-1].blocks.extend(blocks)
        else:
            turns.append(_WireMessage(role, blocks))
    if not turns or turns[0].role == "assistant":
        turns.insert(0, _WireMessage("user", [{"type": "text", "text": OPENING}]))
    if turns[-1].role == "assistant":
        turns.append(_WireMessage("user", [{"type": "text", "text": CLOSING}]))
    for turn in turns:
        if turn.role == "user":  # results come first, right after their calls
            turn.blocks.sort(key=lambda block: block["type"] != "tool_result")
    return turns


class _CallIds:
    """Make call ids that the API accepts: a restricted alphabet, each id once."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._now: dict[str, str] = {}

    def add(self, call_id: str) -> str:
        plain = _NOT_IN_ID.sub("_", call_id) or "call"
        wire, number = plain, 1
        while wire in self._used:
            number += 1
            wire = f"{plain}_{number}"
        self._used.add(wire)
        self._now[call_id] = wire
        return wire

    def get(self, call_id: str) -> str:
        return self._now.get(call_id) or self.add(call_id)


def _message_blocks(
    message: RequestMessage, model_id: str, ids: _CallIds
) -> tuple[Literal["user", "assistant"], list[Json]]:
    match message:
        case UserTurn(text, files):
            text_blocks = [{"type": "text", "text": text}] if text.strip() else []
            return "user", [*(_file_json(file) for file in files), *text_blocks]
        case ToolTurn():
            return "user", [_result_json(message, ids)]
        case ModelTurn():
            blocks = [json for block in message.blocks for json in _block_json(block, model_id, ids)]
            while (
                blocks and blocks[-1]["type"] in _THINKING_BLOCKS
            ):  # the API refuses them at the end of a message
                blocks.pop()
            return "assistant", blocks
        case _:
            assert_never(message)


def _block_json(block: Block, model_id: str, ids: _CallIds) -> Iterator[Json]:
    match block:
        case TextBlock(text):
            if text.strip():
                yield {"type": "text", "text": text.rstrip()}
        case ThinkingBlock():
            yield from _thinking_json(block, model_id)
        case ToolCallBlock(call_id, tool, given):
            yield {"type": "tool_use", "id": ids.add(call_id), "name": wire_name(tool), "input": given}
        case _:
            assert_never(block)


def _thinking_json(thought: ThinkingBlock, model_id: str) -> Iterator[Json]:
    """Yield the thinking block only if this model signed it: the API refuses those of another model."""
    match (thought.metadata or {}).get("anthropic"):
        case {"signature": str(signature), "model": str(model)} if model == model_id:
            yield {"type": "thinking", "thinking": thought.text, "signature": signature}
        case {"redacted": str(data), "model": str(model)} if model == model_id:
            yield {"type": "redacted_thinking", "data": data}
        case _:
            pass


def _result_json(turn: ToolTurn, ids: _CallIds) -> Json:
    result: Json = {"type": "tool_result", "tool_use_id": ids.get(turn.call_id)}
    if turn.files:
        text_blocks = [{"type": "text", "text": turn.output}] if turn.output.strip() else []
        result["content"] = [*text_blocks, *map(_file_json, turn.files)]
    elif turn.output:
        result["content"] = turn.output
    if turn.failed:
        result["is_error"] = True
    return result


def _file_json(file: Attachment) -> Json:
    mime = mime_of(file)
    if mime in _IMAGES and (source := _source(file)) is not None:
        return {"type": "image", "source": source}
    if mime == "application/pdf" and (source := _source(file)) is not None:
        title = {"title": file.filename} if file.filename else {}
        return {"type": "document", "source": source, **title}
    return {"type": "text", "text": text_with_name(file) or placeholder_text(file)}


def _source(file: Attachment) -> Json | None:
    if is_remote(file):
        return {"type": "url", "url": file.url}
    held = inline_file(file)
    return {"type": "base64", "media_type": held.mime, "data": held.base64} if held else None
