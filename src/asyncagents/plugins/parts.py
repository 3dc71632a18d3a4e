"""Converts the parts of a prompt to JSON objects for hooks, and back."""

from collections.abc import Iterable
from typing import Any

import msgspec

from asyncagents.domain.part import AgentPart, FilePart, Part, SubtaskPart, TextPart

_PROMPT = AgentPart | FilePart | SubtaskPart | TextPart
NEW = {"id": "prt_new", "sessionID": "", "messageID": ""}
"""Placeholder ids of a part that a hook adds; it gets its own when it is admitted."""


def plain_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(part) for part in parts]


def read_parts(plain: Iterable[dict[str, Any]]) -> tuple[Part, ...]:
    """Decode parts. Raises `ValidationError` for other types of parts, or if there is no text."""
    parts: tuple[Part, ...] = msgspec.convert([NEW | part for part in plain], tuple[_PROMPT, ...])
    if not any(part.text.strip() if isinstance(part, TextPart) else True for part in parts):
        raise msgspec.ValidationError("a prompt needs some text")
    return parts
