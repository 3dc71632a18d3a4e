"""A conversation as text, for a model that reads it."""

from collections.abc import Sequence

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import (
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
)

MOST_OUTPUT = 2_000
"""Characters of a tool's output that a transcript shows."""
MOST_CHARACTERS = 100_000
"""Of a transcript; the oldest are left out."""


def write_transcript(entries: Sequence[MessageWithParts]) -> str:
    """Write messages as text, oldest first; without reasoning and hidden texts."""
    text = "\n\n".join(filter(None, map(_write_message, entries)))
    return text if len(text) <= MOST_CHARACTERS else f"[older text left out]\n{text[-MOST_CHARACTERS:]}"


def _write_message(entry: MessageWithParts) -> str:
    lines = [line for part in entry.parts if (line := _write_part(part))]
    return "\n".join([f"## {entry.info.role}", *lines]) if lines else ""


def _write_part(part: object) -> str:
    match part:
        case TextPart(text=text, ignored=ignored):
            return "" if ignored else text
        case ToolPart(tool=tool, state=ToolCompleted(title=title, output=output)):
            return f"[{tool}: {title}]\n{_shorten(output)}"
        case ToolPart(tool=tool, state=ToolFailed(error=error)):
            return f"[{tool} failed: {_shorten(error)}]"
        case ToolPart(tool=tool):
            return f"[{tool}: no result yet]"
        case _:
            return ""


def _shorten(text: str) -> str:
    return text if len(text) <= MOST_OUTPUT else f"{text[:MOST_OUTPUT]}… ({len(text)} characters)"
