"""Model windows, and estimates of how many tokens messages take."""

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from msgspec import Struct

from asyncagents.domain.call.late_result import pending_text
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import (
    AgentPart,
    CompactionPart,
    FilePart,
    Part,
    PatchPart,
    ReasoningPart,
    RetryPart,
    SnapshotPart,
    StepFinishPart,
    StepStartPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolWaiting,
)
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import PartId
from asyncagents.domain.shape import encode
from asyncagents.domain.text import shorten_result

OUTPUT_TOKEN_MAX = 32_000
BYTES_A_TOKEN = 4
IMAGE_TOKENS = 1_600
"""About what providers count for an image of the largest size."""
FRAME_TOKENS = 8
"""Overhead of a wire per message or call."""


class Window(Struct, frozen=True, kw_only=True):
    """A model's limits, in tokens; None is unknown."""

    context: int | None = None
    input: int | None = None
    output: int | None = None

    def room(self, reserved: int | None = None) -> int | None:
        """Return the tokens that may be used before the next answer has too little; None if unknown.

        The rest is for the next answer: `reserved`, or the model's output limit; at most half of the window,
        as some models declare an output limit as large as the window.
        """
        if not self.context:
            return None
        output = self.output or self.context // 4
        answer_tokens = min(output, OUTPUT_TOKEN_MAX) if reserved is None else reserved
        room = max(self.context - answer_tokens, self.context // 2)
        return min(room, self.input) if self.input else room


def tokens_used(tokens: Tokens) -> int:
    """Return the tokens of a step in the window: input, cached or not, and output."""
    return tokens.input + tokens.cache.read + tokens.cache.write + tokens.output


def estimate_tokens(entries: Iterable[MessageWithParts], shown: frozenset[PartId] = frozenset()) -> int:
    """Estimate the tokens of messages; `shown`: parts of calls that the model reads as pending."""
    return sum(FRAME_TOKENS + sum(estimate_part(part, shown) for part in entry.parts) for entry in entries)


StoredPart: TypeAlias = Part | UnknownPart


def estimate_part(part: StoredPart, shown: frozenset[PartId] = frozenset()) -> int:
    match part:
        case TextPart(text=text, ignored=ignored):
            return 0 if ignored else estimate_text(text)
        case ReasoningPart(text=text) | SubtaskPart(prompt=text):
            return estimate_text(text)
        case ToolPart():
            return FRAME_TOKENS + estimate_call(part, shown)
        case FilePart(mime=mime, url=url):
            return _estimate_file(mime, url)
        case (
            UnknownPart() | AgentPart() | CompactionPart() | StepStartPart() | StepFinishPart()
            | PatchPart() | SnapshotPart() | RetryPart()
        ):  # fmt: skip
            return 0
        case _:
            assert_never(part)


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text: one per four bytes of UTF-8."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) // BYTES_A_TOKEN


def estimate_call(part: ToolPart, shown: frozenset[PartId]) -> int:
    return len(encode(part.state.input)) // BYTES_A_TOKEN + estimate_output(part, shown)


def estimate_output(part: ToolPart, shown: frozenset[PartId] = frozenset()) -> int:
    """Estimate the tokens of a call's result; a late result counts in its own message, not here."""
    if part.id in shown:
        return estimate_text(pending_text(part.call_id, part.tool))
    match part.state:
        case ToolCompleted(output=text, time=time, attachments=files):
            held = sum(_estimate_file(file.mime, file.url) for file in files or ())
            return 0 if time.compacted else estimate_text(shorten_result(text)) + held
        case ToolFailed(error=text):
            return estimate_text(shorten_result(text))
        case ToolPending() | ToolRunning() | ToolWaiting():
            return FRAME_TOKENS
        case _:
            assert_never(part.state)


def _estimate_file(mime: str, url: str) -> int:
    """Estimate the tokens of a file: a fixed number for an image, others by their size."""
    if mime.startswith("image/"):
        return IMAGE_TOKENS
    return len(url) * 3 // 4 // BYTES_A_TOKEN if url.startswith("data:") else estimate_text(url)
