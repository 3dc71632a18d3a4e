"""Span attributes with the texts of prompts and answers, by the GenAI conventions; off by default."""

from typing import Any, TypeAlias, assert_never

from asyncagents.domain.shape import encode
from asyncagents.domain.text import replace_surrogates, replace_surrogates_in
from asyncagents.llm.model import (
    Attachment,
    Block,
    ChatRequest,
    ModelTurn,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolTurn,
    UserTurn,
)

Json: TypeAlias = dict[str, Any]


def request_attributes(request: ChatRequest) -> dict[str, str]:
    """Return the attributes for the messages of a request."""
    attributes = {"gen_ai.input.messages": _encode_text([_message(message) for message in request.messages])}
    if request.system:
        attributes["gen_ai.system_instructions"] = _encode_text([_text_part(request.system)])
    return attributes


def response_attributes(turn: ModelTurn, finish: str) -> dict[str, str]:
    return {"gen_ai.output.messages": _encode_text([_message(turn) | {"finish_reason": finish}])}


def argument_attributes(given: Json) -> dict[str, str]:
    return {"gen_ai.tool.call.arguments": _encode_text(given)}


def result_attributes(text: str) -> dict[str, str]:
    return {"gen_ai.tool.call.result": replace_surrogates(text)}


def _message(message: RequestMessage) -> Json:
    match message:
        case UserTurn(text, files):
            return {"role": "user", "parts": [_text_part(text), *map(_file_part, files)]}
        case ModelTurn(blocks):
            return {"role": "assistant", "parts": [_part(block) for block in blocks]}
        case ToolTurn(call_id, _, output, files=files):
            response = {"type": "tool_call_response", "id": call_id, "response": output}
            return {"role": "tool", "parts": [response, *map(_file_part, files)]}
        case _:
            assert_never(message)


def _file_part(file: Attachment) -> Json:
    return {"type": "file", "mime_type": file.mime, "name": file.filename}


def _part(block: Block) -> Json:
    match block:
        case TextBlock(text):
            return _text_part(text)
        case ThinkingBlock(text):
            return {"type": "reasoning", "content": text}
        case ToolCallBlock(id, tool, given):
            return {"type": "tool_call", "id": id, "name": tool, "arguments": given}
        case _:
            assert_never(block)


def _text_part(text: str) -> Json:
    return {"type": "text", "content": text}


def _encode_text(value: object) -> str:
    """Encode a value as JSON; unpaired surrogates are replaced."""
    return encode(replace_surrogates_in(value)).decode()
