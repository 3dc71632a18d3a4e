"""Copy messages for a fork: only what the model reads, with open calls closed."""

from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from msgspec.structs import replace

from asyncagents.delegation.fork_limit import CopiedMessage, cut, cut_input, limit, model_messages, size
from asyncagents.domain.call.late_result import parse_late_result, pending_text
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    AgentPart,
    FilePart,
    PartTime,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.id import PartId
from asyncagents.engine.model_input import CLEARED, SUMMARISED

SHELL = "bash"
UNDER_WAY = (
    "This call was still under way when the conversation was copied. Its result goes to the session that made"
    " it, not here."
)
FILES_LEFT_OUT = "\n[The files of this result were left out when the conversation was copied.]"

Copyable: TypeAlias = TextPart | FilePart | AgentPart | SubtaskPart | ToolPart


class HistoryCopier:
    """Copies messages, the newest first, so that newer and late results are known.

    Reasoning is not copied, because its signature is bound to the session; nor are parts only people see.
    """

    def __init__(self, shown: frozenset[PartId]) -> None:
        self._shown = shown
        self._late: set[tuple[str, str]] = set()
        self._newer = 0
        self._at = 0
        self._results = 0
        self._inputs = 0

    def copy(self, entry: MessageWithParts) -> CopiedMessage | None:
        """Copy one message; None: the model reads nothing of it."""
        self._results = self._inputs = 0
        self._at = entry.info.time.created
        of_model = isinstance(entry.info, AssistantMessage)
        parts: list[Copyable] = []
        for part in reversed(entry.parts):
            match part:
                case TextPart(text=text, ignored=ignored) if text and not ignored:
                    parts.append(_end_text(self._copy_text(part, late=not of_model)))
                case ToolPart() if of_model:
                    parts.append(self._copy_call(part))
                case FilePart() | AgentPart() | SubtaskPart() if not of_model:
                    parts.append(part)
                case _:
                    pass
        copy = replace(entry, parts=tuple(reversed(parts)))
        if not model_messages(copy):
            return None
        return CopiedMessage(entry=copy, size=size(copy), results=self._results, inputs=self._inputs)

    def _copy_text(self, part: TextPart, *, late: bool) -> TextPart:
        """Copy a text; one that delivers a late result is shortened as a result."""
        came = parse_late_result(part.text) if late and part.synthetic else None
        if came is None:
            return part
        self._late.add((came.call_id, came.tool))
        ends = came.failed or came.tool == SHELL
        return replace(part, text=came.heading + self._cut_result(came.result, ends=ends))

    def _copy_call(self, part: ToolPart) -> ToolPart:
        given = cut_input(part.state.input, limit(self._newer).input)
        self._inputs += given != part.state.input
        return replace(part, metadata=None, state=self._close_state(part, given))

    def _close_state(self, part: ToolPart, given: dict[str, Any]) -> ToolState:
        """Close a call's state. A late result appears only in the message that delivered it."""
        state = part.state
        if part.id in self._shown:
            came = (part.call_id, part.tool) in self._late
            return _note_result(self._at, given, pending_text(part.call_id, part.tool) if came else UNDER_WAY)
        match state:
            case ToolCompleted(time=time) if time.compacted:
                return _note_result(self._at, given, CLEARED)
            case ToolCompleted(output=output, attachments=files):
                output = self._cut_result(output, ends=part.tool == SHELL) + (FILES_LEFT_OUT if files else "")
                return replace(state, input=given, output=output, metadata={}, attachments=None)
            case ToolFailed(error=error):
                return replace(state, input=given, error=self._cut_result(error, ends=True), metadata=None)
            case ToolPending() | ToolRunning() | ToolWaiting():
                return _note_result(self._at, given, UNDER_WAY)
            case _:
                assert_never(state)

    def _cut_result(self, text: str, *, ends: bool) -> str:
        short_text = cut(text, limit(self._newer).result, ends=ends)
        self._newer += 1
        self._results += short_text != text
        return short_text


def _end_text(part: TextPart) -> TextPart:
    """Mark a text as ended, also one that a crash left incomplete."""
    time = replace(part.time, end=part.time.end or part.time.start) if part.time else None
    return replace(part, metadata=None, time=time)


def _note_result(at: int, given: dict[str, Any], words: str) -> ToolCompleted:
    """Return a note in place of a result; not an error, or the model would repeat the call."""
    return ToolCompleted(input=given, output=words, title="", metadata={}, time=PartTime(start=at, end=at))


def plain_summary(head: Sequence[MessageWithParts]) -> list[CopiedMessage]:
    """Copy a summary as plain messages: the notes beside its request, then its text."""
    if not head:
        return []
    asked, summary = head
    assert isinstance(summary.info, AssistantMessage), "a summary is an assistant message"
    notes = [part for part in asked.parts if isinstance(part, TextPart) and part.synthetic and part.text]
    opening = TextPart(
        id=PartId(""),
        session_id=asked.info.session_id,
        message_id=asked.info.id,
        text=SUMMARISED,
        synthetic=True,
    )
    by = asked.info.agent  # the child must not see the compaction agent
    info = replace(summary.info, summary=None, agent=by, mode=by)
    words = [part for part in summary.parts if isinstance(part, TextPart) and part.text]
    entries = (
        MessageWithParts(info=asked.info, parts=(*notes, opening)),
        MessageWithParts(info=info, parts=tuple(words)),
    )
    return [CopiedMessage(entry=entry, size=size(entry)) for entry in entries if entry.parts]
