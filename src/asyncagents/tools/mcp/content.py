"""Convert the content of MCP answers to text for the model, or to data."""

import base64
import binascii
import re
from collections.abc import Sequence

import mcp_types as types
import msgspec

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.result_file import PDF, FileCollector, decode_base64, mime_of
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.workplace.mcp import McpContent

EMPTY_RESULT = "(the tool said nothing)"
_LONGEST_NAME = 100
_MIME = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(?: ?; ?[\w.+-]{1,40}=[\w.+-]{1,40})?", re.ASCII)
DEFAULT_MIME = "application/octet-stream"


def result_of(result: types.CallToolResult) -> Completed | Failed:
    collector = None if result.is_error else FileCollector()
    text = "\n".join(filter(None, (_block_text(block, collector) for block in result.content)))
    if not text and result.structured_content is not None:
        text = msgspec.json.encode(result.structured_content).decode()
    text = replace_surrogates(text) or EMPTY_RESULT
    return Failed(text) if collector is None else Completed(text, files=tuple(collector.files))


def _block_text(block: types.ContentBlock, collector: FileCollector | None = None) -> str:
    """Return the text of a block; an image is put into the tray, if there is one and the image fits."""
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            about = f"{block.type} {block.mime_type}, {_byte_count(block.data)} bytes"
            return f"[{about}{_place_file(block.data, block.mime_type, '', collector)}]"
        case types.EmbeddedResource():
            return _resource_text(block.resource, collector)
        case types.ResourceLink():
            about = ", ".join(filter(None, (block.name, block.mime_type, block.description)))
            return f"[resource {block.uri}: {about}]"


def _resource_text(
    resource: types.TextResourceContents | types.BlobResourceContents, collector: FileCollector | None = None
) -> str:
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "of unknown kind"
    name = replace_surrogates(str(resource.uri).rpartition("/")[2])[:_LONGEST_NAME]
    placed = _place_file(resource.blob, resource.mime_type or "", name, collector)
    return f"[resource {resource.uri}, {kind}, {_byte_count(resource.blob)} bytes{placed}]"


def _place_file(data: str, mime: str, name: str, collector: FileCollector | None) -> str:
    """Put an image or a PDF into the tray; return a note if it is not shown, else an empty string."""
    held = decode_base64(data)
    shows = mime.startswith("image/") or mime == PDF or (held is not None and mime_of(held) is not None)
    if collector is None or not shows:
        return "; it is not shown here"
    why = collector.add(held, name)
    return f"; it is not shown here: {why}" if why else ""


def contents_of(
    contents: Sequence[types.TextResourceContents | types.BlobResourceContents],
) -> tuple[McpContent, ...]:
    return tuple(map(_build_content, contents))


def _build_content(content: types.TextResourceContents | types.BlobResourceContents) -> McpContent:
    if isinstance(content, types.TextResourceContents):
        return McpContent(
            uri=content.uri,
            mime=_valid_mime(content.mime_type or "text/plain"),
            text=replace_surrogates(content.text),
        )
    return McpContent(uri=content.uri, mime=_valid_mime(content.mime_type), data=_decode_data(content.blob))


def _valid_mime(mime: str | None) -> str:
    """Return a server's MIME type if its syntax is valid, since wires put it into our own text."""
    return mime if mime and _MIME.fullmatch(mime) else DEFAULT_MIME


def prompt_of(result: types.GetPromptResult) -> tuple[McpContent, ...]:
    """Convert a prompt to user content; if it has other roles, each text begins with its role."""
    several = any(message.role != "user" for message in result.messages)
    return tuple(_prompt_content(message, named=several) for message in result.messages)


def _prompt_content(message: types.PromptMessage, *, named: bool) -> McpContent:
    match message.content:
        case types.ImageContent() | types.AudioContent() as block:
            return McpContent(mime=_valid_mime(block.mime_type), data=_decode_data(block.data))
        case types.EmbeddedResource(resource=resource):
            return _build_content(resource)
        case block:
            text = replace_surrogates(_block_text(block))
            return McpContent(mime="text/plain", text=f"{message.role}: {text}" if named else text)


def _decode_data(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return b""


def _byte_count(data: str) -> int:
    return len(data.rstrip("=")) * 3 // 4
