"""Convert a request to pydantic-ai's messages, and thinking parts to metadata and back."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, assert_never

from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from asyncagents.domain.text import replace_surrogates_in
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
from asyncagents.llm.wire.attachment import inline_file, is_remote, mime_of, placeholder_text, text_with_name
from asyncagents.llm.wire.tool_name import wire_name

WIRE = "longtail"
"""The key of a thinking block's metadata that is sent back to its provider."""


def build_parameters(request: ChatRequest) -> ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=tool.name,
            parameters_json_schema=tool.parameters,
            description=tool.description,
            strict=False,
        )
        for tool in request.tools
    ]
    # With None the library would look for instructions in the messages.
    system = [InstructionPart(content=request.system)] if request.system else []
    return ModelRequestParameters(function_tools=tools, instruction_parts=system)


def build_messages(request: ChatRequest) -> list[ModelMessage]:
    """Convert the messages; all between two model turns become one: some providers count its results."""
    return list(_messages(request.messages, request.model.model_id))


def _messages(messages: Sequence[RequestMessage], model_id: str) -> Iterator[ModelMessage]:
    for from_model, group in groupby(messages, lambda one: isinstance(one, ModelTurn)):
        if from_model:
            for step in group:
                assert isinstance(step, ModelTurn)
                parts = [part for block in step.blocks for part in _response_parts(block, model_id)]
                if any(not isinstance(part, ThinkingPart) for part in parts):
                    yield ModelResponse(parts=parts)
        else:
            yield ModelRequest(parts=[_request_part(one) for one in group if not isinstance(one, ModelTurn)])


def _request_part(turn: UserTurn | ToolTurn) -> ModelRequestPart:
    match turn:
        case UserTurn(text, files):
            text_content: list[UserContent] = [text] if text or not files else []
            return UserPromptPart(content=[*text_content, *map(_file_content, files)] if files else text)
        case ToolTurn(call_id, tool, output, failed, files):
            content = [output, *map(_file_content, files)] if files else output
            return ToolReturnPart(
                wire_name(tool), content, call_id, outcome="failed" if failed else "success"
            )
        case _:
            assert_never(turn)


def _response_parts(block: Block, model_id: str) -> Iterator[ModelResponsePart]:
    match block:
        case TextBlock(text):
            if text.strip():
                yield TextPart(content=text)
        case ThinkingBlock():
            yield from _thinking_parts(block, model_id)
        case ToolCallBlock(call_id, tool, given):
            yield ToolCallPart(wire_name(tool), given, call_id)
        case _:
            assert_never(block)


def thinking_metadata(thought: ThinkingPart, model_id: str) -> dict[str, Any] | None:
    """Return the metadata to send back with a thinking part; None if its provider needs none."""
    if thought.provider_name is None:
        return None
    metadata = {
        "provider": thought.provider_name,
        "model": model_id,
        "id": thought.id,
        "signature": thought.signature,
        "details": thought.provider_details,
    }
    return {
        WIRE: {name: replace_surrogates_in(value) for name, value in metadata.items() if value is not None}
    }


def _thinking_parts(thought: ThinkingBlock, model_id: str) -> Iterator[ThinkingPart]:
    """Yield the thinking part only for the model that wrote it: providers refuse signatures of others."""
    metadata: dict[str, Any] = (thought.metadata or {}).get(WIRE) or {}
    if metadata.get("model") == model_id:
        yield ThinkingPart(
            content=thought.text,
            id=metadata.get("id"),
            signature=metadata.get("signature"),
            provider_name=metadata.get("provider"),
            provider_details=metadata.get("details"),
        )


def _file_content(file: Attachment) -> UserContent:
    mime = mime_of(file)
    if (words := text_with_name(file)) is not None:
        return words
    held = inline_file(file)
    if held is not None:
        try:
            return BinaryContent(data=b64decode(held.base64, validate=True), media_type=held.mime)
        except NotBase64:
            return placeholder_text(file)
    if is_remote(file) and mime.startswith("image/"):
        return ImageUrl(url=file.url, media_type=mime)
    if is_remote(file) and mime == "application/pdf":
        return DocumentUrl(url=file.url, media_type=mime)
    return placeholder_text(file)
