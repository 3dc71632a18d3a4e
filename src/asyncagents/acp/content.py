"""Turn the blocks of a prompt into typed text and files."""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from asyncagents.acp.shape import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from asyncagents.domain.conversation.part import FilePart
from asyncagents.domain.http_shapes import SentFile
from asyncagents.errors import InvalidInput


class TypedInput(Struct, frozen=True):
    """A prompt as a person would type it: text, and attached files."""

    text: str
    files: tuple[str | SentFile, ...]


def read_blocks(blocks: tuple[ContentBlock, ...]) -> TypedInput:
    """Read a prompt. Raises `InvalidInput` for audio, and if there is neither text nor a file."""
    pieces = [_read_block(block) for block in blocks]
    text = "\n".join(each.text for each in pieces if isinstance(each, _Text) and each.text)
    files = tuple(each for each in pieces if not isinstance(each, _Text))
    if not text.strip() and not files:
        raise InvalidInput("the prompt is empty: send text, an image or a file")
    return TypedInput(text, files)


class _Text(Struct, frozen=True):
    text: str


def _read_block(block: ContentBlock) -> _Text | str | SentFile:
    match block:
        case TextContent(text=text):
            return _Text(text)
        case ImageContent(data=data, mime_type=mime):
            return SentFile(mime=mime, url=f"data:{mime};base64,{_check_base64(data)}")
        case ResourceLink(uri=uri, name=name):
            path = local_path(uri)
            return path if path is not None else _Text(f"[{name}]({uri})")
        case EmbeddedResource(resource=resource):
            return _embedded_file(resource)
        case AudioContent():
            raise InvalidInput("audio is not supported: send text, images or files")


def local_path(uri: str) -> str | None:
    """Return the path of a `file:` URI of this machine; None for another URI. Raises `InvalidInput`."""
    parts = _split_uri(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path)


def _split_uri(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise InvalidInput(f"the URI {uri[:200]!r} is wrong: {error}") from error


def _embedded_file(resource: ResourceContents) -> SentFile:
    name = unquote(_split_uri(resource.uri).path.rpartition("/")[2]) or resource.uri
    if resource.text is not None:
        data = b64encode(resource.text.encode("utf-8", "replace")).decode()
        return SentFile(mime="text/plain", url=f"data:text/plain;base64,{data}", filename=name)
    if resource.blob is None:
        raise InvalidInput(f"the resource {resource.uri} has neither text nor a blob")
    mime = resource.mime_type or "application/octet-stream"
    return SentFile(mime=mime, url=f"data:{mime};base64,{_check_base64(resource.blob)}", filename=name)


def _check_base64(data: str) -> str:
    try:
        b64decode(data, validate=True)
    except (Base64Error, ValueError):
        raise InvalidInput("an attached file is not valid base64") from None
    return data


def file_block(part: FilePart) -> ContentBlock:
    """Show a file of a stored message; the content of images only."""
    head, _, data = part.url.partition(";base64,")
    if part.mime.startswith("image/") and head == f"data:{part.mime}":
        return ImageContent(data=data, mime_type=part.mime)
    name = part.filename or "file"
    uri: Any = part.url if not part.url.startswith("data:") else f"attachment:{name}"
    return ResourceLink(uri=uri, name=name, mime_type=part.mime)
