"""Convert content between the protocol and ours: prompts as blocks, blocks as text."""

from collections.abc import Iterator, Sequence
from typing import Any

from asyncagents.llm.model import Attachment, UserTurn
from asyncagents.remote.acp.wire import JsonObject, PromptCapabilities


def prompt_blocks(turns: Sequence[UserTurn], accepted: PromptCapabilities) -> list[JsonObject]:
    """Return the blocks of a prompt; files that the agent does not accept are named in a text."""
    blocks: list[JsonObject] = []
    for turn in turns:
        if turn.text:
            blocks.append(text_block(turn.text))
        blocks += [_file_block(file, accepted) for file in turn.files]
    return blocks


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _file_block(file: Attachment, accepted: PromptCapabilities) -> JsonObject:
    name = file.filename or "file"
    inline = file.url.startswith("data:") and ";base64," in file.url
    data = file.url.partition(";base64,")[2] if inline else ""
    if inline and file.mime.startswith("image/") and accepted.image:
        return {"type": "image", "data": data, "mimeType": file.mime}
    if inline and accepted.embedded_context:
        uri = f"attachment:///{name}"
        return {"type": "resource", "resource": {"uri": uri, "mimeType": file.mime, "blob": data}}
    if not inline:
        return {"type": "resource_link", "name": name, "uri": file.url, "mimeType": file.mime}
    return text_block(f"[The file {name} ({file.mime}) is left out: this agent does not accept such files.]")


def block_text(block: Any) -> str:
    """Return the text of a content block; other blocks are named."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource_link", "uri": str(uri)} | {"type": "resource", "resource": {"uri": str(uri)}}:
            return uri
        case {"type": str(kind)}:
            return f"[{kind}]"
        case _:
            return ""


def content_text(content: Any) -> str:
    """Return the content of a call as a text."""
    return "\n".join(text for text in _content_texts(content) if text)


def output_text(raw_output: Any) -> str:
    """Return what a call returned as a text."""
    match raw_output:
        case str():
            return raw_output
        case {"output": str(text)} | {"error": str(text)}:
            return text
        case _:
            return ""


def _content_texts(content: Any) -> Iterator[str]:
    for item in content if isinstance(content, list) else ():
        match item:
            case {"type": "content", "content": block}:
                yield block_text(block)
            case {"type": "diff", "path": str(path)}:
                yield f"{path} was changed."
            case _:
                pass


def changed_paths(content: Any) -> list[str]:
    """Return the paths of diffs."""
    items = content if isinstance(content, list) else []
    return [
        each["path"]
        for each in items
        if isinstance(each, dict) and each.get("type") == "diff" and isinstance(each.get("path"), str)
    ]


def location_paths(locations: list[Any] | None) -> list[str]:
    return [
        each["path"]
        for each in locations or []
        if isinstance(each, dict) and isinstance(each.get("path"), str)
    ]
