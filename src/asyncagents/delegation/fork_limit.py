"""Limit a copied history: new results stay whole, older ones are cut, and the total is bounded."""

from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import (
    Part,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
)
from asyncagents.domain.window import BYTES_A_TOKEN, IMAGE_TOKENS
from asyncagents.engine.model_input import ModelInput
from asyncagents.llm.model import (
    Attachment,
    ModelTurn,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolTurn,
    UserTurn,
)

MOST_CHARS = 200_000
"""Limit of characters of a copied history."""
MOST_SUMMARY_CHARS = 50_000
"""Limit of characters of its summary, if not everything fits."""
DEEPEST = 50
_MARK_CHARS = 40
"""Approximate length of a cut mark."""

AnyPart: TypeAlias = Part | UnknownPart


class CutLimit(Struct, frozen=True):
    """Characters kept of a call's result and of each text of its input; None: all."""

    result: int | None
    input: int


RECENT, MIDDLE, OLD = CutLimit(None, 500), CutLimit(3_000, 200), CutLimit(500, 100)
FIRST_MIDDLE, FIRST_OLD = 5, 15


class CopiedMessage(Struct, frozen=True, kw_only=True):
    """A copied message, its size, and how many of its results, inputs and texts were cut."""

    entry: MessageWithParts
    size: int
    results: int = 0
    inputs: int = 0
    texts: int = 0


def limit(newer: int) -> CutLimit:
    """Return the limit of a call, by how many results are newer than its own."""
    if newer < FIRST_MIDDLE:
        return RECENT
    return MIDDLE if newer < FIRST_OLD else OLD


def cut(text: str, most: int | None, *, ends: bool = False) -> str:
    """Cut a text to `most` characters; `ends`: keep both ends, for output whose end matters."""
    if most is None or len(text) <= most:
        return text
    tail = most // 2 if ends else 0
    mark = f"[… {len(text) - most:,} characters left out …]"
    if not tail:
        return f"{text[:most]}\n{mark}"
    return f"{text[: most - tail]}\n{mark}\n{text[-tail:]}"


def cut_input(given: dict[str, Any], most: int) -> dict[str, Any]:
    """Cut every text in an input, at any depth; the result stays an object."""
    return {name: _cut_value(value, most, 1) for name, value in given.items()}


def _cut_value(value: Any, most: int, depth: int) -> Any:
    match value:
        case str():
            return cut(value, most)
        case dict() | list() | tuple() if depth >= DEEPEST:
            return "[… left out …]"
        case dict():
            return {name: _cut_value(item, most, depth + 1) for name, item in value.items()}
        case list() | tuple():
            return [_cut_value(item, most, depth + 1) for item in value]
        case _:
            return value


def model_messages(entry: MessageWithParts) -> list[RequestMessage]:
    prompt = ModelInput()
    prompt.extend((entry,), frozenset(), since=0)
    return list(prompt.messages)


def size(entry: MessageWithParts) -> int:
    """Return the size in characters, as the model reads it."""
    return sum(map(_message_size, model_messages(entry)))


def _message_size(message: RequestMessage) -> int:
    match message:
        case UserTurn(text, files):
            return len(text) + sum(map(_file_size, files))
        case ModelTurn(blocks):
            return sum(map(_block_size, blocks))
        case ToolTurn(output=output, files=files):
            return len(output) + sum(map(_file_size, files))
        case _:
            assert_never(message)


def _block_size(block: TextBlock | ThinkingBlock | ToolCallBlock) -> int:
    match block:
        case TextBlock(text) | ThinkingBlock(text):
            return len(text)
        case ToolCallBlock(input=given):
            return len(msgspec.json.encode(given).decode())
        case _:
            assert_never(block)


def _file_size(file: Attachment) -> int:
    """Return the size of a file; an image counts by its tokens, not its bytes."""
    return IMAGE_TOKENS * BYTES_A_TOKEN if file.mime.startswith("image/") else len(file.url)


def fit_history(
    head: list[CopiedMessage], body: list[CopiedMessage]
) -> tuple[list[CopiedMessage], list[CopiedMessage]]:
    """Return the summary and the messages that fit: all, or a cut summary and the newest messages.

    If even the newest message is too long, its texts are cut, so that the fork has some history.
    """
    if _total_size(head) + _total_size(body) <= MOST_CHARS:
        return head, body
    head = [cut_message(each, MOST_SUMMARY_CHARS // len(head)) for each in head]
    room = MOST_CHARS - _total_size(head)
    left, first = _total_size(body), 0
    while left > room and first < len(body) - 1:
        left -= body[first].size
        first += 1
    if left <= room:
        return head, body[first:]
    last = cut_message(body[-1], room)
    return head, [last] if last.size <= room else []


def _total_size(copies: list[CopiedMessage]) -> int:
    return sum(each.size for each in copies)


def cut_message(copy: CopiedMessage, most: int) -> CopiedMessage:
    """Cut every text and result of a message to an equal share; other parts stay unchanged."""
    if copy.size <= most:
        return copy
    lengths = [len(text) for text in map(_part_text, copy.entry.parts) if text]
    share = (most - (copy.size - sum(lengths))) // max(1, len(lengths)) - _MARK_CHARS
    if share <= 0:
        return copy
    long = [part for part in copy.entry.parts if len(_part_text(part)) > share]
    results = sum(isinstance(part, ToolPart) for part in long)
    entry = replace(copy.entry, parts=tuple(_cut_part(part, share) for part in copy.entry.parts))
    return replace(
        copy,
        entry=entry,
        size=size(entry),
        results=max(copy.results, results),
        texts=len(long) - results,
    )


def _part_text(part: AnyPart) -> str:
    match part:
        case TextPart(text=text) | SubtaskPart(description=text):
            return text
        case ToolPart(state=ToolCompleted(output=text) | ToolFailed(error=text)):
            return text
        case _:
            return ""


def _cut_part(part: AnyPart, share: int) -> AnyPart:
    match part:
        case TextPart(text=text):
            return replace(part, text=cut(text, share, ends=True))
        case SubtaskPart(description=text):
            return replace(part, description=cut(text, share, ends=True))
        case ToolPart(state=ToolCompleted(output=output) as state):
            return replace(part, state=replace(state, output=cut(output, share, ends=True)))
        case ToolPart(state=ToolFailed(error=error) as state):
            return replace(part, state=replace(state, error=cut(error, share, ends=True)))
        case _:
            return part
