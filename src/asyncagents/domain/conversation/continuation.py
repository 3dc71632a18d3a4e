"""Continuations: which plugin note makes a turn continue after its agent stopped, and their keys."""

from asyncagents.domain.id import MessageId

SYSTEM_PREFIX = "[SYSTEM"


def asks_to_continue(before: str, after: str) -> bool:
    """Tell whether a note that begins with `[SYSTEM` was appended to the text."""
    return after.startswith(before) and after[len(before) :].lstrip().startswith(SYSTEM_PREFIX)


def continuation_key_prefix(prompt: MessageId | None) -> str:
    """Return the prefix of the keys of all continuations after this prompt."""
    return f"nudge:{prompt}:"
