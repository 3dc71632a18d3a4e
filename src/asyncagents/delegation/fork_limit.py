"""Limit a copied history: new results stay whole, older ones are cut, and the total is bounded."""

from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.part import (
    Part,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
)
from asyncagents.domain.window import BYTES_A_TOKEN, IMAGE_TOKENS
from asyncagents.engine.model_input import Prompt
from asyncagents.llm.model import Attachment, CallMade, FromModel, FromTool, FromUser, Said, Thought, Told

MOST = 200_000
"""Limit of characters of a copied history."""
MOST_OF_SUMMARY = 50_000
"""Limit of characters of its summary, if not everything fits."""
DEEPEST = 50
_MARK = 40
"""Approximate length of a cut mark."""

Anything: TypeAlias = Part | UnknownPart


class Limit(Struct, frozen=True):
    """Characters kept of a call's result and of each text of its input; None: all."""

    result: int | None
    input: int


RECENT, MIDDLE, OLD = Limit(None, 500), Limit(3_000, 200), Limit(500, 100)
FIRST_MIDDLE, FIRST_OLD = 5, 15


class Copied(Struct, frozen=True, kw_only=True):
    """A copied message, its size, and how many of its results, inputs and texts were cut."""

    entry: Entry
    size: int
    results: int = 0
    inputs: int = 0
    texts: int = 0


def limit(newer: int) -> Limit:
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


def told(entry: Entry) -> list[Told]:
    prompt = Prompt()
    prompt.extend((entry,), frozenset(), since=0)
    return list(prompt.messages)


def size(entry: Entry) -> int:
    """Return the size in characters, as the model reads it."""
    return sum(map(_told_size, told(entry)))


def _told_size(said: Told) -> int:
    match said:
        case FromUser(text, files):
            return len(text) + sum(map(_file_size, files))
        case FromModel(blocks):
            return sum(map(_block_size, blocks))
        case FromTool(output=output, files=files):
            return len(output) + sum(map(_file_size, files))
        case _:
            assert_never(said)


def _block_size(block: Said | Thought | CallMade) -> int:
    match block:
        case Said(text) | Thought(text):
            return len(text)
        case CallMade(input=given):
            return len(msgspec.json.encode(given).decode())
        case _:
            assert_never(block)


def _file_size(file: Attachment) -> int:
    """Return the size of a file; an image counts by its tokens, not its bytes."""
    return IMAGE_TOKENS * BYTES_A_TOKEN if file.mime.startswith("image/") else len(file.url)


def fitting(head: list[Copied], body: list[Copied]) -> tuple[list[Copied], list[Copied]]:
    """Return the summary and the messages that fit: all, or a cut summary and the newest messages.

    If even the newest message is too long, its texts are cut, so that the fork has some history.
    """
    if _sum(head) + _sum(body) <= MOST:
        return head, body
    head = [cut_down(each, MOST_OF_SUMMARY // len(head)) for each in head]
    room = MOST - _sum(head)
    left, first = _sum(body), 0
    while left > room and first < len(body) - 1:
        left -= body[first].size
        first += 1
    if left <= room:
        return head, body[first:]
    last = cut_down(body[-1], room)
    return head, [last] if last.size <= room else []


def _sum(copies: list[Copied]) -> int:
    return sum(each.size for each in copies)


def cut_down(copy: Copied, most: int) -> Copied:
    """Cut every text and result of a message to an equal share; other parts stay unchanged."""
    if copy.size <= most:
        return copy
    lengths = [len(text) for text in map(_words, copy.entry.parts) if text]
    share = (most - (copy.size - sum(lengths))) // max(1, len(lengths)) - _MARK
    if share <= 0:
        return copy
    long = [part for part in copy.entry.parts if len(_words(part)) > share]
    results = sum(isinstance(part, ToolPart) for part in long)
    entry = replace(copy.entry, parts=tuple(_to_share(part, share) for part in copy.entry.parts))
    return replace(
        copy,
        entry=entry,
        size=size(entry),
        results=max(copy.results, results),
        texts=len(long) - results,
    )


def _words(part: Anything) -> str:
    match part:
        case TextPart(text=text) | SubtaskPart(description=text):
            return text
        case ToolPart(state=ToolCompleted(output=text) | ToolError(error=text)):
            return text
        case _:
            return ""


def _to_share(part: Anything, share: int) -> Anything:
    match part:
        case TextPart(text=text):
            return replace(part, text=cut(text, share, ends=True))
        case SubtaskPart(description=text):
            return replace(part, description=cut(text, share, ends=True))
        case ToolPart(state=ToolCompleted(output=output) as state):
            return replace(part, state=replace(state, output=cut(output, share, ends=True)))
        case ToolPart(state=ToolError(error=error) as state):
            return replace(part, state=replace(state, error=cut(error, share, ends=True)))
        case _:
            return part
