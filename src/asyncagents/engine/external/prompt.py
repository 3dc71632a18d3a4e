"""Find what a step sends to its external agent: the input since the last prompt, or that prompt again."""

from collections.abc import Iterator, Sequence

from asyncagents.domain.agent.external_session import ExternalSession
from asyncagents.domain.conversation.entry import MessageWithParts, ModelHistory
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.id import MessageId
from asyncagents.domain.text import shorten_middle
from asyncagents.engine.external.agent import ExternalInput
from asyncagents.engine.model_input import is_about_summary, summary_text, user_turns
from asyncagents.llm.model import UserTurn

MOST_TRANSCRIPT = 60_000
"""Characters of the transcript for a new external session."""


def find_input(
    history: ModelHistory, step_id: MessageId, known: ExternalSession | None, *, partial: str = ""
) -> ExternalInput:
    """Find the input of a step in the history that the session has now."""
    entries = [each for each in history.entries if each.info.id != step_id and not is_about_summary(each)]
    fresh = _count_answered(entries)
    sent = _place_after(entries, known.newest_input) if known else None
    prompt = known.prompt if known and sent is not None else None
    since = (_place_after(entries, prompt.after) or 0) if prompt else 0
    first = fresh if sent is None else sent
    if not prompt and not _user_turns(entries[first:]):
        first = fresh  # the last input is sent again: its step failed
    return ExternalInput(
        unsent=_user_turns(entries[first:]),
        after=entries[first - 1].info.id if first else None,
        again=_user_turns(entries[since:sent]) if prompt else (),
        newest=next(each.info.id for each in reversed(entries) if isinstance(each.info, UserMessage)),
        transcript=write_transcript(history.head, entries[:fresh]),
        partial=partial,
    )


def _count_answered(entries: Sequence[MessageWithParts]) -> int:
    """Count the entries up to the last answer; the input of the step follows them."""
    for place in range(len(entries), 0, -1):
        if not isinstance(entries[place - 1].info, UserMessage):
            return place
    return 0


def _place_after(entries: Sequence[MessageWithParts], message_id: MessageId | None) -> int | None:
    for place, entry in enumerate(entries):
        if entry.info.id == message_id:
            return place + 1
    return None


def _user_turns(entries: Sequence[MessageWithParts]) -> tuple[UserTurn, ...]:
    return tuple(
        turn for each in entries if isinstance(each.info, UserMessage) for turn in user_turns(each.parts)
    )


def write_transcript(head: Sequence[MessageWithParts], entries: Sequence[MessageWithParts]) -> str:
    """Write a conversation as a text; empty if nothing was said."""
    lines = [text for entry in reversed(head) if (text := summary_text(entry))]
    lines += _spoken_lines(entries)
    return shorten_middle("\n\n".join(lines), MOST_TRANSCRIPT)


def _spoken_lines(entries: Sequence[MessageWithParts]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry.info, UserMessage):
            yield from (f"User: {turn.text}" for turn in user_turns(entry.parts))
        elif entry.text.strip():
            yield f"Agent: {entry.text}"
