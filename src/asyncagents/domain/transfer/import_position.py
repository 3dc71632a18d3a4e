"""Positions of imported messages: where the model continues to read, and which message is the summary."""

from collections.abc import Sequence

from msgspec.structs import replace

from asyncagents.domain.conversation.message import AssistantMessage, sort_key
from asyncagents.domain.conversation.part import CompactionPart
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import MessageId
from asyncagents.domain.session_state import SUMMARY_WANTED
from asyncagents.domain.transfer.records import ImportedMessage, ImportedPart, MessageMark, SessionMark
from asyncagents.errors import InvalidInput


def assign_positions(session: Session, messages: Sequence[ImportedMessage]) -> list[ImportedMessage]:
    """Assign positions and turns in this order; reverted messages get none, a user message begins a turn."""
    until: str | None = session.revert.message_id if session.revert else None
    until = next((sort_key(each.info) for each in messages if each.info.id == until), until)
    turn, answered, found = 0, True, []
    for position, each in enumerate(messages, 1):
        is_answer = isinstance(each.info, AssistantMessage)
        turn += answered and not is_answer
        answered = is_answer
        read = until is None or sort_key(each.info) < until
        mark = MessageMark(position=position, turn=max(turn, 1)) if read else MessageMark()
        found.append(replace(each, mark=mark))
    return found


def complete_session_mark(
    mark: SessionMark | None,
    messages: Sequence[ImportedMessage],
    parts: Sequence[ImportedPart],
    *,
    waits: bool,
) -> SessionMark:
    """Check the mark of a session, or derive one from its messages."""
    if mark is None:
        mark = _with_summary(SessionMark(), messages, parts)
        mark = replace(mark, turn=max((each.mark.turn or 0 for each in messages), default=0))
    else:
        _check_session_mark(mark, messages)
    compacting = SUMMARY_WANTED if mark.compacting == SUMMARY_WANTED else 0
    return replace(mark, in_turn=waits and mark.turn > 0, compacting=compacting)


def _with_summary(
    mark: SessionMark, messages: Sequence[ImportedMessage], parts: Sequence[ImportedPart]
) -> SessionMark:
    places = {each.info.id: each.mark.position for each in messages if each.mark.position is not None}
    newest = next((each for each in reversed(messages) if _is_summary(each, places)), None)
    if newest is None or newest.mark.position is None or not isinstance(newest.info, AssistantMessage):
        return mark
    asked = newest.info.parent_id
    tails = [part.part.tail_start_id for part in parts if _requests_summary(part, asked)]  # type: ignore[union-attr]
    tail = next((places[each] for each in tails if each in places), newest.mark.position)
    return replace(mark, summary=newest.mark.position, tail=min(tail or 0, newest.mark.position))


def _requests_summary(part: ImportedPart, asked: MessageId) -> bool:
    return isinstance(part.part, CompactionPart) and part.part.message_id == asked


def _is_summary(each: ImportedMessage, places: dict[MessageId, int]) -> bool:
    """Tell whether a message is a complete summary whose request is known."""
    info = each.info
    if not isinstance(info, AssistantMessage) or not info.summary or info.error is not None:
        return False
    return each.info.id in places and info.parent_id in places and not each.mark.hidden


def _check_session_mark(mark: SessionMark, messages: Sequence[ImportedMessage]) -> None:
    if mark.summary or mark.tail:
        places = {each.info.id: each.mark.position for each in messages if each.mark.position is not None}
        at = next((each for each in messages if each.mark.position == mark.summary), None)
        if at is None or not _is_summary(at, places) or not 0 <= mark.tail <= mark.summary:
            raise InvalidInput(f"position {mark.summary} is marked as a summary and holds none")
    turns = mark.turn, mark.blocked_turn, mark.steps
    if any(not 0 <= each < 2**31 for each in turns):
        raise InvalidInput(
            f"{max(turns, key=abs)} is not a valid number of turns or steps: expected 0 to 2^31"
        )
