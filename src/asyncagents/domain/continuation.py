"""A turn that goes on though its agent stopped: which note of a plugin asks for it, and how it is counted."""

from asyncagents.domain.id import MessageId

MARK = "[SYSTEM"


def asks_to_continue(before: str, after: str) -> bool:
    """Tell whether a note was appended to the text that begins like one of the system."""
    return after.startswith(before) and after[len(before) :].lstrip().startswith(MARK)


def continuation_keys(prompt: MessageId | None) -> str:
    """Give the beginning that all keys of continuations after this prompt share."""
    return f"nudge:{prompt}:"
