"""Render a conversation as one text for a summary request, with long outputs cut to fit."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from msgspec import Struct

from asyncagents.domain.call.late_result import parse_late_result, pending_text
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    FilePart,
    Part,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolWaiting,
)
from asyncagents.domain.envelope import escape_tags, one_line
from asyncagents.domain.id import PartId
from asyncagents.domain.shape import encode
from asyncagents.domain.text import without_reminders
from asyncagents.domain.window import estimate_text
from asyncagents.engine.model_input import CLEARED, INTERRUPTED, enclose_result

MAX_OUTPUT_CHARS = 2_000
MAX_TEXT_CHARS = 16_000
MIN_CHARS = 200
ASSISTANT = "Assistant"
INDENT = "\n  "
OMITTED = "[… {count} messages are left out here …]"


class DigestLine(Struct, frozen=True):
    """One speaker's text. `essential`: said by a person or a model, not an output of a tool."""

    speaker: str
    text: str
    essential: bool = False

    def render(self, text: int, output: int) -> str:
        return _indent(f"{self.speaker}: {cut_middle(self.text, text if self.essential else output)}")


def digest(head: str, entries: Sequence[MessageWithParts], shown: frozenset[PartId], *, room: int) -> str:
    """Render the entries in at most `room` tokens; `head`: the text of an earlier summary."""
    lines = [list(_entry_lines(entry, shown)) for entry in entries]
    before = [f"Summary of what came before:\n{_cut_to_tokens(_indent(head), room // 2)}"] if head else []
    room -= sum(estimate_text(text) for text in before)
    text, output = MAX_TEXT_CHARS, MAX_OUTPUT_CHARS
    entry_texts = _render_entries(lines, text, output)
    while _count_tokens(entry_texts) > room and output > MIN_CHARS:
        text, output = max(MIN_CHARS, text // 2), max(MIN_CHARS, output // 2)
        entry_texts = _render_entries(lines, text, output)
    return "\n\n".join([*before, *_fit_entries(entry_texts, room)])


def _render_entries(lines: list[list[DigestLine]], text: int, output: int) -> list[str]:
    return ["\n".join(each.render(text, output) for each in of_entry) for of_entry in lines if of_entry]


def _count_tokens(texts: Sequence[str]) -> int:
    return sum(estimate_text(text) + 1 for text in texts)


def _fit_entries(texts: list[str], room: int) -> Iterator[str]:
    """Yield all entries if they fit; else the first one and as many of the last as fit."""
    if not texts or _count_tokens(texts) <= room:
        yield from texts
        return
    first, *rest = texts
    first = cut_middle(first, max(MIN_CHARS, room))
    left = room - estimate_text(first) - 16
    newest: list[str] = []
    for text in reversed(rest):
        left -= estimate_text(text) + 1
        if left < 0:
            break
        newest.append(text)
    yield first
    yield OMITTED.format(count=len(rest) - len(newest))
    yield from reversed(newest)


def cut_middle(text: str, most: int) -> str:
    """Cut the middle out of a text that is too long; its end is indented."""
    if len(text) <= most:
        return text
    half = max(1, most // 2)
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]{INDENT}{text[-half:]}"


def _indent(text: str) -> str:
    """Indent all lines but the first, so that no text looks like another speaker's."""
    return "\n".join(text.splitlines()).replace("\n", INDENT)


def _cut_to_tokens(text: str, tokens: int) -> str:
    """Cut a text to a number of tokens, in any script (a character may take a whole token)."""
    if estimate_text(text) <= tokens:
        return text
    return cut_middle(text, len(text) * tokens // estimate_text(text))


def _entry_lines(entry: MessageWithParts, shown: frozenset[PartId]) -> Iterator[DigestLine]:
    speaker = ASSISTANT if isinstance(entry.info, AssistantMessage) else "User"
    for part in entry.parts:
        yield from _part_lines(speaker, part, shown)


def _part_lines(speaker: str, part: Part | UnknownPart, shown: frozenset[PartId]) -> Iterator[DigestLine]:
    match part:
        case TextPart(text=text, ignored=ignored, synthetic=synthetic) if not ignored:
            if plain_text := without_reminders(f"\n{text}").strip():
                plain_text = (
                    escape_tags(plain_text, files=True) if speaker == ASSISTANT else plain_text
                )  # the whole digest is sent as a user's text
                came = (
                    synthetic and parse_late_result(text) is not None
                )  # a tool's output in a message of its own
                by = "Result" if came else "System" if synthetic else speaker
                yield DigestLine(by, plain_text, essential=not synthetic)
        case FilePart(mime=mime, filename=name):
            yield DigestLine(speaker, _name_file(name, mime), essential=True)
        case SubtaskPart(agent=agent, prompt=prompt):
            yield DigestLine(speaker, f"[asked @{agent}] {prompt}", essential=True)
        case ToolPart():
            yield DigestLine(
                f"Call of {one_line(part.tool)}", escape_tags(encode(part.state.input).decode(), files=True)
            )
            yield DigestLine("Result", _result_text(part, shown))
        case _:
            pass


def _name_file(name: str | None, mime: str) -> str:
    return f"[attached {one_line(name or 'a file')}, {one_line(mime)}]"


def _result_text(part: ToolPart, shown: frozenset[PartId]) -> str:
    if part.id in shown:
        return pending_text(part.call_id, part.tool)
    match part.state:
        case ToolCompleted(time=time) if time.compacted:
            return CLEARED
        case ToolCompleted(output=output, attachments=files):
            names = [_name_file(file.filename, file.mime) for file in files or ()]
            return "\n".join((enclose_result(part.tool, output), *names))
        case ToolFailed(error=error):
            return f"failed: {enclose_result(part.tool, error)}"
        case ToolPending() | ToolRunning() | ToolWaiting():
            return INTERRUPTED
        case _:
            assert_never(part.state)
