"""Render a conversation as one text for a summary request, with long outputs cut to fit."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from msgspec import Struct

from asyncagents.domain.call.call import arrived, pending_text
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    FilePart,
    Part,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolWaiting,
)
from asyncagents.domain.envelope import enclosed, line
from asyncagents.domain.id import PartId
from asyncagents.domain.shape import encode
from asyncagents.domain.text import without_reminders
from asyncagents.domain.window import words
from asyncagents.engine.model_input import CLEARED, INTERRUPTED, read_result

LONGEST_OUTPUT = 2_000
LONGEST_TEXT = 16_000
SHORTEST = 200
ASSISTANT = "Assistant"
HANGING = "\n  "
LEFT_OUT = "[… {count} messages are left out here …]"


class Line(Struct, frozen=True):
    """One speaker's text. `essential`: said by a person or a model, not an output of a tool."""

    who: str
    text: str
    essential: bool = False

    def cut(self, text: int, output: int) -> str:
        return _hang(f"{self.who}: {shortened(self.text, text if self.essential else output)}")


def digest(head: str, entries: Sequence[Entry], shown: frozenset[PartId], *, room: int) -> str:
    """Render the entries in at most `room` tokens; `head`: the text of an earlier summary."""
    lines = [list(_lines(entry, shown)) for entry in entries]
    before = [f"Summary of what came before:\n{_within(_hang(head), room // 2)}"] if head else []
    room -= sum(words(text) for text in before)
    text, output = LONGEST_TEXT, LONGEST_OUTPUT
    told = _told(lines, text, output)
    while _size(told) > room and output > SHORTEST:
        text, output = max(SHORTEST, text // 2), max(SHORTEST, output // 2)
        told = _told(lines, text, output)
    return "\n\n".join([*before, *_fitting(told, room)])


def _told(lines: list[list[Line]], text: int, output: int) -> list[str]:
    return ["\n".join(each.cut(text, output) for each in of_entry) for of_entry in lines if of_entry]


def _size(told: Sequence[str]) -> int:
    return sum(words(text) + 1 for text in told)


def _fitting(told: list[str], room: int) -> Iterator[str]:
    """Yield all entries if they fit; else the first one and as many of the last as fit."""
    if not told or _size(told) <= room:
        yield from told
        return
    first, *rest = told
    first = shortened(first, max(SHORTEST, room))
    left = room - words(first) - 16
    kept: list[str] = []
    for text in reversed(rest):
        left -= words(text) + 1
        if left < 0:
            break
        kept.append(text)
    yield first
    yield LEFT_OUT.format(count=len(rest) - len(kept))
    yield from reversed(kept)


def shortened(text: str, most: int) -> str:
    """Cut the middle out of a text that is too long; its end is indented."""
    if len(text) <= most:
        return text
    half = max(1, most // 2)
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]{HANGING}{text[-half:]}"


def _hang(text: str) -> str:
    """Indent all lines but the first, so that no text looks like another speaker's."""
    return "\n".join(text.splitlines()).replace("\n", HANGING)


def _within(text: str, tokens: int) -> str:
    """Cut a text to a number of tokens, in any script (a character may take a whole token)."""
    if words(text) <= tokens:
        return text
    return shortened(text, len(text) * tokens // words(text))


def _lines(entry: Entry, shown: frozenset[PartId]) -> Iterator[Line]:
    who = ASSISTANT if isinstance(entry.info, AssistantMessage) else "User"
    for part in entry.parts:
        yield from _part(who, part, shown)


def _part(who: str, part: Part | UnknownPart, shown: frozenset[PartId]) -> Iterator[Line]:
    match part:
        case TextPart(text=text, ignored=ignored, synthetic=synthetic) if not ignored:
            if said := without_reminders(f"\n{text}").strip():
                said = (
                    enclosed(said, files=True) if who == ASSISTANT else said
                )  # the whole digest is sent as a user's text
                came = synthetic and arrived(text) is not None  # a tool's output in a message of its own
                by = "Result" if came else "System" if synthetic else who
                yield Line(by, said, essential=not synthetic)
        case FilePart(mime=mime, filename=name):
            yield Line(who, _name_file(name, mime), essential=True)
        case SubtaskPart(agent=agent, prompt=prompt):
            yield Line(who, f"[asked @{agent}] {prompt}", essential=True)
        case ToolPart():
            yield Line(f"Call of {line(part.tool)}", enclosed(encode(part.state.input).decode(), files=True))
            yield Line("Result", _result(part, shown))
        case _:
            pass


def _name_file(name: str | None, mime: str) -> str:
    return f"[attached {line(name or 'a file')}, {line(mime)}]"


def _result(part: ToolPart, shown: frozenset[PartId]) -> str:
    if part.id in shown:
        return pending_text(part.call_id, part.tool)
    match part.state:
        case ToolCompleted(time=time) if time.compacted:
            return CLEARED
        case ToolCompleted(output=output, attachments=files):
            names = [_name_file(file.filename, file.mime) for file in files or ()]
            return "\n".join((read_result(part.tool, output), *names))
        case ToolError(error=error):
            return f"failed: {read_result(part.tool, error)}"
        case ToolPending() | ToolRunning() | ToolWaiting():
            return INTERRUPTED
        case _:
            assert_never(part.state)
