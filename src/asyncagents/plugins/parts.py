"""The parts of a prompt as a hook sees them, JSON objects, and back."""

from collections.abc import Iterable
from typing import Any

import msgspec

from asyncagents.domain.part import AgentPart, FilePart, Part, SubtaskPart, TextPart

_PROMPT = AgentPart | FilePart | SubtaskPart | TextPart
NEW = {"id": "prt_new", "sessionID": "", "messageID": ""}
"""What a part that a hook made need not say; it gets its own when it is admitted."""


def plain_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(part) for part in parts]


def read_parts(plain: Iterable[dict[str, Any]]) -> tuple[Part, ...]:
    """Raises `ValidationError` for what no prompt has, or one that says nothing."""
    parts: tuple[Part, ...] = msgspec.convert([NEW | part for part in plain], tuple[_PROMPT, ...])
    if not any(part.text.strip() if isinstance(part, TextPart) else True for part in parts):
        raise msgspec.ValidationError("a prompt needs some text")
    return parts
