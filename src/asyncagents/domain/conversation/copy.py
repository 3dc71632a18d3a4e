"""Copies the messages of a session for a new session: new ids, and no open calls or steps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage, Message, UserMessage
from asyncagents.domain.conversation.part import (
    CompactionPart,
    Part,
    PartTime,
    ReasoningPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.id import Ids, MessageId, PartId, SessionId

UNDER_WAY = (
    "This call was still under way when the conversation was copied. Its result goes to the session that made"
    " it, not here."
)


class PositionedMessage(Struct, frozen=True):
    """A message and its position in what the model reads; None: not read yet."""

    entry: MessageWithParts
    position: int | None


class ConversationCopy(Struct, frozen=True, kw_only=True):
    """Copied messages in the order of their ids. `summary`, `tail`: as in `Control`."""

    messages: tuple[PositionedMessage, ...]
    summary: int = 0
    tail: int = 0


def copy_conversation(
    source: Sequence[PositionedMessage], *, to: SessionId, ids: Ids, now: int
) -> ConversationCopy:
    """Copy messages given in the order of their ids; messages without a position get the last positions."""
    read = sorted((each for each in source if each.position is not None), key=lambda each: each.position or 0)
    unread = [each for each in source if each.position is None]
    places = {each.entry.info.id: place for place, each in enumerate((*read, *unread), 1)}
    names = {each.entry.info.id: named for each, named in zip(source, ids.messages(len(source)), strict=True)}
    copier = _Copier(to, ids, names, now)
    copies = tuple(PositionedMessage(copier.copy(each.entry), places[each.entry.info.id]) for each in source)
    return ConversationCopy(messages=copies, **_reading_start(read, places))


def _reading_start(read: Sequence[PositionedMessage], places: Mapping[MessageId, int]) -> dict[str, int]:
    """Return the positions of the newest complete summary and its tail, if there is one."""
    requests = {each.entry.info.id: each.entry for each in read}
    for each in reversed(read):
        info = each.entry.info
        if isinstance(info, AssistantMessage) and _is_complete_summary(info) and info.parent_id in requests:
            place = places[info.id]
            wish = next((p for p in requests[info.parent_id].parts if isinstance(p, CompactionPart)), None)
            tail = wish.tail_start_id if wish else None
            return {"summary": place, "tail": places.get(tail, place) if tail else place}
    return {}


def _is_complete_summary(info: AssistantMessage) -> bool:
    return bool(info.summary) and info.error is None and info.time.completed is not None


class _Copier:
    def __init__(self, to: SessionId, ids: Ids, names: Mapping[MessageId, MessageId], now: int) -> None:
        self._to = to
        self._ids = ids
        self._names = names
        self._now = now

    def copy(self, entry: MessageWithParts) -> MessageWithParts:
        info = self._copy_message(entry.info, calls=any(isinstance(part, ToolPart) for part in entry.parts))
        return MessageWithParts(info=info, parts=tuple(self._copy_parts(entry, info.id)))

    def _copy_message(self, info: Message, *, calls: bool) -> Message:
        named = self._names[info.id]
        match info:
            case UserMessage():
                return replace(info, id=named, session_id=self._to)
            case AssistantMessage():
                parent_id = self._names.get(info.parent_id, info.parent_id)
                info = replace(info, id=named, session_id=self._to, parent_id=parent_id)
                return info if info.time.completed is not None else self._end_message(info, calls=calls)
            case _:
                assert_never(info)

    def _end_message(self, info: AssistantMessage, *, calls: bool) -> AssistantMessage:
        """End an incomplete step: the copy does not continue it."""
        finish = info.finish or ("tool-calls" if calls else "stop")
        return replace(info, time=replace(info.time, completed=self._now), finish=finish)

    def _copy_parts(self, entry: MessageWithParts, message_id: MessageId) -> Iterator[Part | UnknownPart]:
        for part, part_id in zip(entry.parts, self._ids.parts(len(entry.parts)), strict=True):
            if isinstance(part, UnknownPart):
                yield self._copy_unknown_part(part, part_id, message_id)
                continue
            part = replace(part, id=part_id, session_id=self._to, message_id=message_id)
            match part:
                case (
                    TextPart(time=PartTime(end=None) as time) | ReasoningPart(time=PartTime(end=None) as time)
                ):
                    yield replace(part, time=replace(time, end=self._now))
                case CompactionPart(tail_start_id=tail) if tail is not None:
                    yield replace(part, tail_start_id=self._names.get(tail))
                case ToolPart():
                    yield replace(part, state=self._close_state(part.state, message_id))
                case _:
                    yield part

    def _close_state(self, state: ToolState, message_id: MessageId) -> ToolState:
        match state:
            case ToolCompleted(attachments=files) if files:
                named = {"session_id": self._to, "message_id": message_id}
                return replace(
                    state, attachments=tuple(replace(file, id=self._ids.part(), **named) for file in files)
                )
            case ToolCompleted() | ToolFailed():
                return state
            case ToolPending() | ToolRunning() | ToolWaiting():
                time = PartTime(start=self._now, end=self._now)
                return ToolCompleted(input=state.input, output=UNDER_WAY, title="", metadata={}, time=time)
            case _:
                assert_never(state)

    def _copy_unknown_part(self, part: UnknownPart, part_id: PartId, message_id: MessageId) -> UnknownPart:
        named = {"id": part_id, "sessionID": self._to, "messageID": message_id}
        raw = msgspec.json.encode({**msgspec.json.decode(part.raw), **named})
        return UnknownPart(raw, type=part.type, id=part_id, session_id=self._to, message_id=message_id)
