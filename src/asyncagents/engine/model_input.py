"""The messages that the model reads; append-only, so that the provider's cache stays valid."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape

from msgspec.structs import replace

from asyncagents.domain.agent.permission import DELEGATING
from asyncagents.domain.call.late_result import pending_text
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    CompactionPart,
    FilePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
)
from asyncagents.domain.envelope import escape_tags
from asyncagents.domain.id import PartId
from asyncagents.domain.text import shorten_result
from asyncagents.domain.window import estimate_output, estimate_tokens
from asyncagents.llm.model import (
    Attachment,
    Block,
    ModelTurn,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.wire.attachment import decode_text, name_of

INTERRUPTED = "[Tool execution was interrupted]"
CLEARED = "[The output of this call was left out to make room. Make the call again if you need it.]"
SUMMARISED = "The conversation was longer than what you see. This summary stands for what came before:"
PROTECTED_TOKENS = 40_000
PRUNED_TOKENS = 20_000
FILE_BYTES_PER_TOKEN = 256
"""Keeps about 15 MB of files in a conversation; providers accept 20 to 50."""
PROTECTED_TOOLS = frozenset({"skill"})


class ModelInput:
    """The messages of one session's run. `since`: the position from which messages are not final yet."""

    def __init__(self) -> None:
        self._messages: list[RequestMessage] = []
        self._outputs: list[tuple[PartId, int]] = []
        self._output_tokens = 0
        self.since = 0
        self.tokens = 0
        """Estimated tokens of all messages."""
        self.head_tokens = 0
        """Estimated tokens of the summary."""

    def begin_with_summary(self, head: Sequence[MessageWithParts]) -> None:
        """Begin with a summary, and the note in the request for it."""
        texts = [SUMMARISED, *(summary_text(entry) for entry in reversed(head))]
        if head:
            self._messages.append(UserTurn("\n\n".join(text for text in texts if text)))
            self.head_tokens = estimate_tokens(head)
            self.tokens += self.head_tokens

    def extend(self, entries: Sequence[MessageWithParts], shown: frozenset[PartId], *, since: int) -> None:
        """Add entries that have become final; the next read starts at `since`."""
        for entry in entries:
            if not is_about_summary(entry):
                self._messages.extend(_entry_messages(entry, shown))
                self._weigh(entry, shown)
        self.since = since

    def _weigh(self, entry: MessageWithParts, shown: frozenset[PartId]) -> None:
        self.tokens += estimate_tokens((entry,), shown)
        for part in entry.parts:
            if isinstance(part, ToolPart) and part.id not in shown and _is_prunable(part):
                tokens = estimate_output(part) + _file_tokens(part)
                self._outputs.append((part.id, tokens))
                self._output_tokens += tokens

    def stale_outputs(self) -> tuple[PartId, ...]:
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
    def messages(self) -> Sequence[RequestMessage]:
        return self._messages


def is_about_summary(entry: MessageWithParts) -> bool:
    """Whether an entry is a summary or a request for one; neither is read at its position."""
    if isinstance(entry.info, AssistantMessage):
        return bool(entry.info.summary)
    return any(isinstance(part, CompactionPart) for part in entry.parts)


def summary_text(entry: MessageWithParts) -> str:
    """Return a summary's text, escaped as it goes into a user's message; of its request only our note."""
    texts = [part for part in entry.parts if isinstance(part, TextPart)]
    if isinstance(entry.info, AssistantMessage):
        return escape_tags("\n".join(part.text for part in texts), files=True)
    return "\n".join(part.text for part in texts if part.synthetic)


def _file_tokens(part: ToolPart) -> int:
    """Count the bytes of files as tokens, so that old ones are pruned before a request is too large."""
    files = part.state.attachments if isinstance(part.state, ToolCompleted) else None
    return sum(len(file.url) for file in files or ()) // FILE_BYTES_PER_TOKEN


def _is_prunable(part: ToolPart) -> bool:
    if part.tool in PROTECTED_TOOLS or not isinstance(part.state, ToolCompleted):
        return False
    return part.state.time.compacted is None


def _entry_messages(entry: MessageWithParts, shown: frozenset[PartId]) -> Iterator[RequestMessage]:
    if not isinstance(entry.info, AssistantMessage):
        yield from user_turns(entry.parts)
        return
    blocks = tuple(_model_blocks(entry.parts))
    if all(isinstance(block, ThinkingBlock) for block in blocks):
        return
    yield ModelTurn(blocks)
    for part in entry.parts:
        if isinstance(part, ToolPart):
            yield _tool_result(part, shown)


def user_turns(parts: tuple[Part | UnknownPart, ...]) -> Iterator[UserTurn]:
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
                words = decode_text(file)
                files.append(file) if words is None else texts.append(wrap_file(name_of(file), words))
            case _:
                pass
    if texts or files:
        yield UserTurn("\n".join(texts), tuple(files))


def wrap_file(name: str, words: str) -> str:
    """Wrap a file's text in a tag, with text and name escaped."""
    return f'<file name="{escape(" ".join(name.split()))}">\n{escape_tags(words, files=True)}\n</file>'


def _model_blocks(parts: tuple[Part | UnknownPart, ...]) -> Iterator[Block]:
    for part in parts:
        match part:
            case TextPart(text=text, ignored=ignored) if text and not ignored:
                yield TextBlock(text)
            case ReasoningPart(text=text, metadata=metadata) if text or metadata:
                yield ThinkingBlock(text, metadata)
            case ToolPart():
                yield ToolCallBlock(part.call_id, part.tool, part.state.input)
            case _:
                pass


def _inline_files(files: Sequence[FilePart]) -> tuple[Attachment, ...]:
    """Return files with inline data only: a result must not make a provider fetch a URL."""
    return tuple(_inline_file(each) for each in files if each.url.startswith("data:"))


def _inline_file(part: FilePart) -> Attachment:
    """Escape the text of a text file, as any result."""
    file = Attachment(part.mime, part.url, part.filename and escape_tags(part.filename))
    words = decode_text(file)
    if words is None or words == (inside := escape_tags(words)):
        return file
    return replace(file, url=f"data:{file.mime};base64,{b64encode(inside.encode()).decode()}")


def enclose_result(tool: str, text: str) -> str:
    """Return what the model reads of a result, with our tags escaped.

    Results of delegation tools hold such tags, around text that the tools have escaped themselves.
    """
    text = shorten_result(text)
    return text if tool in DELEGATING else escape_tags(text)


def quote_model_text(tool: str, words: str) -> str:
    """Quote a model's text in an error; escaped for delegation tools, whose results are read unescaped."""
    return escape_tags(words) if tool in DELEGATING else words


def _tool_result(part: ToolPart, shown: frozenset[PartId]) -> ToolTurn:
    if part.id in shown:
        return ToolTurn(part.call_id, part.tool, pending_text(part.call_id, part.tool))
    match part.state:
        case ToolCompleted(time=time) if time.compacted:
            return ToolTurn(part.call_id, part.tool, CLEARED)
        case ToolCompleted(output=output, attachments=files):
            words = enclose_result(part.tool, output)
            return ToolTurn(part.call_id, part.tool, words, files=_inline_files(files or ()))
        case ToolFailed(error=error):
            return ToolTurn(part.call_id, part.tool, enclose_result(part.tool, error), failed=True)
        case _:
            return ToolTurn(part.call_id, part.tool, INTERRUPTED, failed=True)
