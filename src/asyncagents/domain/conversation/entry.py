"""A message with its parts."""

from typing import ClassVar

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import Part, TextPart
from asyncagents.domain.shape import Shape


class MessageWithParts(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Entry"
    info: Message
    parts: tuple[Part | UnknownPart, ...]

    @property
    def text(self) -> str:
        """The text of the message, without synthetic parts."""
        return "\n".join(p.text for p in self.parts if isinstance(p, TextPart) and not p.synthetic)
