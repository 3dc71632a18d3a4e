"""Span attributes with the texts of prompts and answers, by the GenAI conventions; off by default."""

from typing import Any, TypeAlias, assert_never

from asyncagents.domain.shape import encode
from asyncagents.domain.text import whole, whole_in
from asyncagents.llm.model import (
    Attachment,
    Block,
    CallMade,
    FromModel,
    FromTool,
    FromUser,
    Request,
    Said,
    Thought,
    Told,
)

Json: TypeAlias = dict[str, Any]


def asked(request: Request) -> dict[str, str]:
    """Return the attributes for the messages of a request."""
    said = {"gen_ai.input.messages": _text([_message(told) for told in request.messages])}
    if request.system:
        said["gen_ai.system_instructions"] = _text([_words(request.system)])
    return said


def answered(said: FromModel, finish: str) -> dict[str, str]:
    return {"gen_ai.output.messages": _text([_message(said) | {"finish_reason": finish}])}


def arguments(given: Json) -> dict[str, str]:
    return {"gen_ai.tool.call.arguments": _text(given)}


def result(text: str) -> dict[str, str]:
    return {"gen_ai.tool.call.result": whole(text)}


def _message(told: Told) -> Json:
    match told:
        case FromUser(text, files):
            return {"role": "user", "parts": [_words(text), *map(_file, files)]}
        case FromModel(blocks):
            return {"role": "assistant", "parts": [_part(block) for block in blocks]}
        case FromTool(call_id, _, output, files=files):
            response = {"type": "tool_call_response", "id": call_id, "response": output}
            return {"role": "tool", "parts": [response, *map(_file, files)]}
        case _:
            assert_never(told)


def _file(file: Attachment) -> Json:
    return {"type": "file", "mime_type": file.mime, "name": file.filename}


def _part(block: Block) -> Json:
    match block:
        case Said(text):
            return _words(text)
        case Thought(text):
            return {"type": "reasoning", "content": text}
        case CallMade(id, tool, given):
            return {"type": "tool_call", "id": id, "name": tool, "arguments": given}
        case _:
            assert_never(block)


def _words(text: str) -> Json:
    return {"type": "text", "content": text}


def _text(value: object) -> str:
    """Encode a value as JSON; unpaired surrogates are replaced."""
    return encode(whole_in(value)).decode()
