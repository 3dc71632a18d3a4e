"""The messages that the model reads; append-only, so that the provider's cache stays valid."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape

from msgspec.structs import replace

from asyncagents.domain.agent.permission import DELEGATING
from asyncagents.domain.call.call import pending_text
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    CompactionPart,
    FilePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
)
from asyncagents.domain.envelope import enclosed
from asyncagents.domain.id import PartId
from asyncagents.domain.text import result_read
from asyncagents.domain.window import output_weight, weight
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
from asyncagents.llm.wire.attachment import name_of, words_in

INTERRUPTED = "[Tool execution was interrupted]"
CLEARED = "[The output of this call was left out to make room. Make the call again if you need it.]"
SUMMARISED = "The conversation was longer than what you see. This summary stands for what came before:"
PROTECTED_TOKENS = 40_000
PRUNED_TOKENS = 20_000
FILE_BYTES_A_TOKEN = 256
"""Keeps about 15 MB of files in a conversation; providers accept 20 to 50."""
PROTECTED_TOOLS = frozenset({"skill"})


class Prompt:
    """The messages of one session's run. `since`: the position from which messages are not final yet."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._outputs: list[tuple[PartId, int]] = []
        self._output_tokens = 0
        self.since = 0
        self.tokens = 0
        """Estimated tokens of all messages."""
        self.head = 0
        """Estimated tokens of the summary."""

    def open(self, head: Sequence[Entry]) -> None:
        """Begin with a summary, and the note in the request for it."""
        texts = [SUMMARISED, *(_said(entry) for entry in reversed(head))]
        if head:
            self._told.append(FromUser("\n\n".join(text for text in texts if text)))
            self.head = weight(head)
            self.tokens += self.head

    def extend(self, entries: Sequence[Entry], shown: frozenset[PartId], *, since: int) -> None:
        """Add entries that have become final; the next read starts at `since`."""
        for entry in entries:
            if not about_summary(entry):
                self._told.extend(_told(entry, shown))
                self._weigh(entry, shown)
        self.since = since

    def _weigh(self, entry: Entry, shown: frozenset[PartId]) -> None:
        self.tokens += weight((entry,), shown)
        for part in entry.parts:
            if isinstance(part, ToolPart) and part.id not in shown and _can_be_left_out(part):
                tokens = output_weight(part) + _file_load(part)
                self._outputs.append((part.id, tokens))
                self._output_tokens += tokens

    def stale(self) -> tuple[PartId, ...]:
        """Return the calls whose outputs are old, and together long enough to be pruned."""
        if self._output_tokens < PROTECTED_TOKENS + PRUNED_TOKENS:
            return ()
        newer, found, freed = 0, [], 0
        for part_id, tokens in reversed(self._outputs):
            newer += tokens
            if newer > PROTECTED_TOKENS:
                found.append(part_id)
                freed += tokens
        return tuple(reversed(found)) if freed >= PRUNED_TOKENS else ()

    @property
    def messages(self) -> Sequence[Told]:
        return self._told


def about_summary(entry: Entry) -> bool:
    """Whether an entry is a summary or a request for one; neither is read at its position."""
    if isinstance(entry.info, AssistantMessage):
        return bool(entry.info.summary)
    return any(isinstance(part, CompactionPart) for part in entry.parts)


def _said(entry: Entry) -> str:
    """Return a summary's text, escaped as it goes into a user's message; of its request only our note."""
    texts = [part for part in entry.parts if isinstance(part, TextPart)]
    if isinstance(entry.info, AssistantMessage):
        return enclosed("\n".join(part.text for part in texts), files=True)
    return "\n".join(part.text for part in texts if part.synthetic)


def _file_load(part: ToolPart) -> int:
    """Count the bytes of files as tokens, so that old ones are pruned before a request is too large."""
    files = part.state.attachments if isinstance(part.state, ToolCompleted) else None
    return sum(len(file.url) for file in files or ()) // FILE_BYTES_A_TOKEN


def _can_be_left_out(part: ToolPart) -> bool:
    if part.tool in PROTECTED_TOOLS or not isinstance(part.state, ToolCompleted):
        return False
    return part.state.time.compacted is None


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
    """Join texts and the content of text files; attach other files."""
    texts: list[str] = []
    files: list[Attachment] = []
    for part in parts:
        match part:
            case TextPart(text=text, ignored=ignored) if text and not ignored:
                texts.append(text)
            case FilePart(url=url) if not url.startswith(("data:", "http:", "https:")):
                pass  # its text is in the part before it
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
    """Wrap a file's text in a tag, with text and name escaped."""
    return f'<file name="{escape(" ".join(name.split()))}">\n{enclosed(words, files=True)}\n</file>'


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


def _held_files(files: Sequence[FilePart]) -> tuple[Attachment, ...]:
    """Return files with inline data only: a result must not make a provider fetch a URL."""
    return tuple(_held_file(each) for each in files if each.url.startswith("data:"))


def _held_file(part: FilePart) -> Attachment:
    """Escape the text of a text file, as any result."""
    file = Attachment(part.mime, part.url, part.filename and enclosed(part.filename))
    words = words_in(file)
    if words is None or words == (inside := enclosed(words)):
        return file
    return replace(file, url=f"data:{file.mime};base64,{b64encode(inside.encode()).decode()}")


def read_result(tool: str, text: str) -> str:
    """Return what the model reads of a result, with our tags escaped.

    Results of delegation tools hold such tags, around text that the tools have escaped themselves.
    """
    text = result_read(text)
    return text if tool in DELEGATING else enclosed(text)


def repeated(tool: str, words: str) -> str:
    """Quote a model's text in an error; escaped for delegation tools, whose results are read unescaped."""
    return enclosed(words) if tool in DELEGATING else words


def _result(part: ToolPart, shown: frozenset[PartId]) -> FromTool:
    if part.id in shown:
        return FromTool(part.call_id, part.tool, pending_text(part.call_id, part.tool))
    match part.state:
        case ToolCompleted(time=time) if time.compacted:
            return FromTool(part.call_id, part.tool, CLEARED)
        case ToolCompleted(output=output, attachments=files):
            words = read_result(part.tool, output)
            return FromTool(part.call_id, part.tool, words, files=_held_files(files or ()))
        case ToolError(error=error):
            return FromTool(part.call_id, part.tool, read_result(part.tool, error), failed=True)
        case _:
            return FromTool(part.call_id, part.tool, INTERRUPTED, failed=True)
