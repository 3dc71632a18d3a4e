"""Convert the content of MCP answers to text for the model, or to data."""

import base64
import binascii
import re
from collections.abc import Sequence

import mcp_types as types
import msgspec

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.result_file import PDF, FileTray, decode_base64, mime_of
from asyncagents.domain.text import whole
from asyncagents.engine.workplace.mcp import Content

NOTHING = "(the tool said nothing)"
_LONGEST_NAME = 100
_MIME = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(?: ?; ?[\w.+-]{1,40}=[\w.+-]{1,40})?", re.ASCII)
UNTYPED = "application/octet-stream"


def result_of(result: types.CallToolResult) -> Completed | Failed:
    tray = None if result.is_error else FileTray()
    text = "\n".join(filter(None, (_words(block, tray) for block in result.content)))
    if not text and result.structured_content is not None:
        text = msgspec.json.encode(result.structured_content).decode()
    text = whole(text) or NOTHING
    return Failed(text) if tray is None else Completed(text, files=tuple(tray.files))


def _words(block: types.ContentBlock, tray: FileTray | None = None) -> str:
    """Return the text of a block; an image is put into the tray, if there is one and the image fits."""
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            about = f"{block.type} {block.mime_type}, {_size(block.data)} bytes"
            return f"[{about}{_place_file(block.data, block.mime_type, '', tray)}]"
        case types.EmbeddedResource():
            return _embedded(block.resource, tray)
        case types.ResourceLink():
            about = ", ".join(filter(None, (block.name, block.mime_type, block.description)))
            return f"[resource {block.uri}: {about}]"


def _embedded(
    resource: types.TextResourceContents | types.BlobResourceContents, tray: FileTray | None = None
) -> str:
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "of unknown kind"
    name = whole(str(resource.uri).rpartition("/")[2])[:_LONGEST_NAME]
    placed = _place_file(resource.blob, resource.mime_type or "", name, tray)
    return f"[resource {resource.uri}, {kind}, {_size(resource.blob)} bytes{placed}]"


def _place_file(data: str, mime: str, name: str, tray: FileTray | None) -> str:
    """Put an image or a PDF into the tray; return a note if it is not shown, else an empty string."""
    held = decode_base64(data)
    shows = mime.startswith("image/") or mime == PDF or (held is not None and mime_of(held) is not None)
    if tray is None or not shows:
        return "; it is not shown here"
    why = tray.put(held, name)
    return f"; it is not shown here: {why}" if why else ""


def contents_of(
    contents: Sequence[types.TextResourceContents | types.BlobResourceContents],
) -> tuple[Content, ...]:
    return tuple(map(_content, contents))


def _content(content: types.TextResourceContents | types.BlobResourceContents) -> Content:
    if isinstance(content, types.TextResourceContents):
        return Content(
            uri=content.uri, mime=_typed(content.mime_type or "text/plain"), text=whole(content.text)
        )
    return Content(uri=content.uri, mime=_typed(content.mime_type), data=_decoded(content.blob))


def _typed(mime: str | None) -> str:
    """Return a server's MIME type if its syntax is valid, since wires put it into our own text."""
    return mime if mime and _MIME.fullmatch(mime) else UNTYPED


def prompt_of(result: types.GetPromptResult) -> tuple[Content, ...]:
    """Convert a prompt to user content; if it has other roles, each text begins with its role."""
    several = any(message.role != "user" for message in result.messages)
    return tuple(_said(message, named=several) for message in result.messages)


def _said(message: types.PromptMessage, *, named: bool) -> Content:
    match message.content:
        case types.ImageContent() | types.AudioContent() as block:
            return Content(mime=_typed(block.mime_type), data=_decoded(block.data))
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
