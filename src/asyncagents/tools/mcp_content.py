"""What an MCP server answers, in words that a model can read, or as data."""

import base64
import binascii
from collections.abc import Sequence

import mcp_types as types
import msgspec

from asyncagents.domain.call import Completed, Failed
from asyncagents.domain.text import whole
from asyncagents.engine.served import Content

NOTHING = "(the tool said nothing)"


def result_of(result: types.CallToolResult) -> Completed | Failed:
    text = "\n".join(filter(None, map(_words, result.content)))
    if not text and result.structured_content is not None:
        text = msgspec.json.encode(result.structured_content).decode()
    text = whole(text) or NOTHING
    return Failed(text) if result.is_error else Completed(text)


def _words(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.type} {block.mime_type}, {_size(block.data)} bytes; it is not shown here]"
        case types.EmbeddedResource():
            return _embedded(block.resource)
        case types.ResourceLink():
            about = ", ".join(filter(None, (block.name, block.mime_type, block.description)))
            return f"[resource {block.uri}: {about}]"


def _embedded(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "of unknown kind"
    return f"[resource {resource.uri}, {kind}, {_size(resource.blob)} bytes; it is not shown here]"


def contents_of(
    contents: Sequence[types.TextResourceContents | types.BlobResourceContents],
) -> tuple[Content, ...]:
    return tuple(map(_content, contents))


def _content(content: types.TextResourceContents | types.BlobResourceContents) -> Content:
    if isinstance(content, types.TextResourceContents):
        return Content(uri=content.uri, mime=content.mime_type or "text/plain", text=whole(content.text))
    mime = content.mime_type or "application/octet-stream"
    return Content(uri=content.uri, mime=mime, data=_decoded(content.blob))


def prompt_of(result: types.GetPromptResult) -> tuple[Content, ...]:
    """As what a person would say: who says what in an example is told in words."""
    several = any(message.role != "user" for message in result.messages)
    return tuple(_said(message, named=several) for message in result.messages)


def _said(message: types.PromptMessage, *, named: bool) -> Content:
    match message.content:
        case types.ImageContent() | types.AudioContent() as block:
            return Content(mime=block.mime_type, data=_decoded(block.data))
        case types.EmbeddedResource(resource=resource):
            return _content(resource)
        case block:
            text = whole(_words(block))
            return Content(mime="text/plain", text=f"{message.role}: {text}" if named else text)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return b""


def _size(data: str) -> int:
    return len(data.rstrip("=")) * 3 // 4
