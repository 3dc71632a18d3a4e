"""Transcripts of a child session, message by message, for the parent's model."""

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import Failure, failure_name
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    FilePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolState,
)
from asyncagents.domain.envelope import envelope, one_line
from asyncagents.domain.shape import encode

_INPUT_MOST = 500


class Transcript(Struct, frozen=True, kw_only=True):
    """Options of a transcript; `since_message_id`: the last message already read."""

    include_thinking: bool = False
    include_tool_results: bool = False
    since_message_id: str | None = None
    message_limit: int | None = None
    thinking_max_chars: int = 2_000


def transcript(entries: Sequence[MessageWithParts], transcript: Transcript) -> str:
    """Render messages oldest first, each with its id, and the number left out by the limit."""
    since = transcript.since_message_id
    seen = 0
    if since is not None:
        seen = next((at for at, entry in enumerate(entries, 1) if entry.info.id == since), 0)
        if not seen:
            return f'There is no message "{one_line(since)}" in this session: leave since_message_id out.'
    new = entries[seen:]
    shown = new if transcript.message_limit is None else new[: max(transcript.message_limit, 1)]
    if not shown:
        return "No new messages." if seen else "No messages yet."
    text = "\n\n".join(_message(entry, transcript) for entry in shown)
    left = len(new) - len(shown)
    return f"{text}\n\n{_more(left, shown[-1])}" if left else text


def _more(left: int, last: MessageWithParts) -> str:
    later = "later message" if left == 1 else "later messages"
    return f'Not shown: {left} {later}. Go on with since_message_id="{last.info.id}".'


def _message(entry: MessageWithParts, transcript: Transcript) -> str:
    info = entry.info
    role, error = ("assistant", info.error) if isinstance(info, AssistantMessage) else ("user", None)
    inside = list(chain.from_iterable(_part(part, transcript) for part in entry.parts))
    if error is not None:
        inside.append(_error(error))
    return "\n".join((f'<task_message id="{info.id}" role="{role}">', *inside, "</task_message>"))


def _part(part: Part | UnknownPart, transcript: Transcript) -> Iterator[str]:
    match part:
        case TextPart() if not (part.synthetic or part.ignored) and part.text.strip():
            yield envelope("task_text", part.text)
        case ReasoningPart() if transcript.include_thinking and part.text.strip():
            yield envelope("task_thinking", _cut(part.text, transcript.thinking_max_chars))
        case ToolPart():
            yield _call(part, transcript)
        case FilePart():
            yield envelope("task_file", part.filename or part.url[:80], mime=part.mime)
        case SubtaskPart():
            yield envelope("task_prompt", part.prompt, agent=part.agent, description=part.description)
        case _:  # parts for clients only, and unknown parts
            return


def _call(part: ToolPart, transcript: Transcript) -> str:
    state = part.state
    inside = [envelope("task_input", _cut(encode(state.input).decode(), _INPUT_MOST))]
    inside += _outcome(state, transcript)
    head = f'<task_call tool="{one_line(part.tool)}" status="{state.__struct_config__.tag}">'
    return "\n".join((head, *inside, "</task_call>"))


def _outcome(state: ToolState, transcript: Transcript) -> Iterator[str]:
    """Render the outcome of a call; errors are short, so they are shown even if results are not."""
    match state:
        case ToolCompleted() if transcript.include_tool_results:
            yield envelope("task_output", state.output)
            for file in state.attachments or ():
                yield envelope("task_file", file.filename or "a file", mime=file.mime)
        case ToolFailed():
            yield envelope("task_error", state.error)
        case _:
            return


def _error(error: Failure) -> str:
    message = getattr(getattr(error, "data", None), "message", "")
    return envelope("task_error", message, error_type=failure_name(error))


def _cut(text: str, most: int) -> str:
    most = max(most, 0)
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"
