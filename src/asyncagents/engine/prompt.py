"""What the model is told: it only ever grows, so that what was sent never changes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from asyncagents.domain.call import pending_text
from asyncagents.domain.codec import UnknownPart
from asyncagents.domain.history import Entry
from asyncagents.domain.id import PartId
from asyncagents.domain.message import AssistantMessage
from asyncagents.domain.part import (
    FilePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
)
from asyncagents.llm.attachment import name_of, words_in
from asyncagents.llm.model import (
    Attachment,
    Block,
    CallMade,
    FromModel,
    FromTool,
    FromUser,
    Said,
    Thought,
    Told,
)

INTERRUPTED = "[Tool execution was interrupted]"
_CLOSING = re.compile(r"<\s*/\s*file", re.IGNORECASE)


class Prompt:
    """The messages of one session's run. `since`: the place from which it is not final yet."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self.since = 0

    def extend(self, entries: Iterable[Entry], shown: frozenset[PartId], *, since: int) -> None:
        """Add what has become final; the next reading starts at `since`."""
        for entry in entries:
            self._told.extend(_told(entry, shown))
        self.since = since

    @property
    def messages(self) -> Sequence[Told]:
        return self._told


def _told(entry: Entry, shown: frozenset[PartId]) -> Iterator[Told]:
    if not isinstance(entry.info, AssistantMessage):
        yield from _from_user(entry.parts)
        return
    blocks = tuple(_blocks(entry.parts))
    if all(isinstance(block, Thought) for block in blocks):
        return
    yield FromModel(blocks)
    for part in entry.parts:
        if isinstance(part, ToolPart):
            yield _result(part, shown)


def _from_user(parts: tuple[Part | UnknownPart, ...]) -> Iterator[Told]:
    """Texts as they stand, and the words of text files among them; other files go beside."""
    texts: list[str] = []
    files: list[Attachment] = []
    for part in parts:
        match part:
            case TextPart(text=text, ignored=ignored) if text and not ignored:
                texts.append(text)
            case FilePart(url=url) if not url.startswith(("data:", "http:", "https:")):
                pass  # its words stand beside it
            case SubtaskPart():
                texts.append(f"The user starts a task for the subagent {part.agent}: {part.description}")
            case FilePart():
                file = Attachment(part.mime, part.url, part.filename)
                words = words_in(file)
                files.append(file) if words is None else texts.append(in_a_tag(name_of(file), words))
            case _:
                pass
    if texts or files:
        yield FromUser("\n".join(texts), tuple(files))


def in_a_tag(name: str, words: str) -> str:
    """What a file says stays inside its tag, and what it is called inside its quotes."""
    inside = _CLOSING.sub(lambda tag: f"&lt;{tag[0][1:]}", words)
    return f'<file name="{escape(" ".join(name.split()))}">\n{inside}\n</file>'


def _blocks(parts: tuple[Part | UnknownPart, ...]) -> Iterator[Block]:
    for part in parts:
        match part:
            case TextPart(text=text, ignored=ignored) if text and not ignored:
                yield Said(text)
            case ReasoningPart(text=text, metadata=metadata) if text or metadata:
                yield Thought(text, metadata)
            case ToolPart():
                yield CallMade(part.call_id, part.tool, part.state.input)
            case _:
                pass


def _result(part: ToolPart, shown: frozenset[PartId]) -> FromTool:
    if part.id in shown:
        return FromTool(part.call_id, part.tool, pending_text(part.call_id, part.tool))
    match part.state:
        case ToolCompleted(output=output):
            return FromTool(part.call_id, part.tool, output)
        case ToolError(error=error):
            return FromTool(part.call_id, part.tool, error, failed=True)
        case _:
            return FromTool(part.call_id, part.tool, INTERRUPTED, failed=True)
