"""Fork a session: copy the parent's history for the child, with calls closed and results shortened."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.delegation.fork_copy import HistoryCopier, plain_summary
from asyncagents.delegation.fork_limit import CopiedMessage, fit_history
from asyncagents.delegation.texts import load_text
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import Part, StepStartPart, ToolPart
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.id import Ids, MessageId, PartId, SessionId
from asyncagents.engine.model_input import is_about_summary
from asyncagents.errors import NotFound

OPENING = "[The messages that came before are left out.]"


class ForkedHistory(Struct, frozen=True):
    entries: tuple[MessageWithParts, ...]
    """In the order in which the model reads them, which is the order of their ids."""
    preamble: str
    """Text between the history and the child's task."""


def fork_history(
    told_head: Sequence[MessageWithParts],
    entries: Sequence[MessageWithParts],
    *,
    before: MessageId,
    to: SessionId,
    ids: Ids,
    shown: frozenset[PartId] = frozenset(),
) -> ForkedHistory:
    """Copy the messages that a session's model has read before the message with the forking call.

    `shown`: parts of calls that were shown as pending; their results came in later messages.
    Raises `NotFound` if `entries` has no message `before`.
    """
    if all(entry.info.id != before for entry in entries):
        raise NotFound("message", before)
    read = list(takewhile(lambda entry: entry.info.id != before, entries))
    copyist = HistoryCopier(shown)
    newest_first = [copyist.copy(entry) for entry in reversed(read) if not is_about_summary(entry)]
    copies = [copy for copy in reversed(newest_first) if copy is not None]
    head, tail = fit_history(plain_summary(told_head), copies)
    named = tuple(_assign_ids([copy.entry for copy in (*head, *tail)], to, ids))
    return ForkedHistory(named, _build_preamble([*head, *tail], left_out=len(copies) - len(tail)))


def _assign_ids(entries: list[MessageWithParts], to: SessionId, ids: Ids) -> Iterator[MessageWithParts]:
    """Yield the entries under new ids.

    Each step answers the copy of its user message or, if that was left out, the last one before it.
    """
    if entries and isinstance(entries[0].info, AssistantMessage):
        first = entries[0].info
        address = MessageTarget(to, first.agent, first.model_ref)
        system_message = build_system_message(address, OPENING, ids=ids, now=first.time.created)
        yield MessageWithParts(info=system_message.message, parts=(system_message.part,))
        asked = system_message.message.id
    else:
        asked = MessageId("")
    names: dict[MessageId, MessageId] = {}
    for entry in entries:
        message_id = names[entry.info.id] = ids.message()
        if isinstance(entry.info, AssistantMessage):
            parent_id = names.get(entry.info.parent_id, asked)
            yield _copy_step(entry, entry.info, parent_id, _Target(to, message_id, ids))
        else:
            asked = message_id
            info = replace(
                entry.info, id=message_id, session_id=to, format=None, summary=None, system=None, tools=None
            )
            yield MessageWithParts(info=info, parts=tuple(_copy_parts(entry, _Target(to, message_id, ids))))


class _Target(Struct, frozen=True):
    session_id: SessionId
    message_id: MessageId
    ids: Ids


def _copy_step(
    entry: MessageWithParts, info: AssistantMessage, parent_id: MessageId, target: _Target
) -> MessageWithParts:
    """Copy a step as completed, without cost and error: another session paid for it.

    Its `finish` is always set, so that no run goes on with the step.
    """
    finish = info.finish
    if info.error is not None or finish is None:
        finish = "tool-calls" if any(isinstance(part, ToolPart) for part in entry.parts) else "stop"
    info = replace(
        info,
        id=target.message_id,
        session_id=target.session_id,
        parent_id=parent_id,
        time=replace(info.time, completed=info.time.completed or info.time.created),
        cost=0,
        tokens=Tokens.zero(),
        error=None,
        summary=None,
        structured=None,
        finish=finish,
    )
    begun = StepStartPart(id=target.ids.part(), session_id=target.session_id, message_id=target.message_id)
    return MessageWithParts(info=info, parts=(begun, *_copy_parts(entry, target)))


def _copy_parts(entry: MessageWithParts, target: _Target) -> Iterator[Part]:
    for part in entry.parts:
        assert not isinstance(part, UnknownPart), "`HistoryCopier` drops unknown parts"
        yield replace(part, id=target.ids.part(), session_id=target.session_id, message_id=target.message_id)


def _build_preamble(copies: list[CopiedMessage], *, left_out: int) -> str:
    counts = (
        (sum(copy.results for copy in copies), "tool result shortened", "tool results shortened"),
        (sum(copy.inputs for copy in copies), "tool input shortened", "tool inputs shortened"),
        (sum(copy.texts for copy in copies), "long text shortened", "long texts shortened"),
        (left_out, "message left out, the oldest", "messages left out, the oldest ones"),
    )
    cuts = [f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count]
    return load_text("fork-preamble").format(
        cut=f"Cut from it: {'; '.join(cuts)}." if cuts else "Nothing was cut from this one."
    )
