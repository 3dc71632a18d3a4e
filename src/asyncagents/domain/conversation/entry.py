"""A message with its parts."""

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import Part, TextPart
from asyncagents.domain.shape import Shape


class Entry(Shape, frozen=True, kw_only=True):
    info: Message
    parts: tuple[Part | UnknownPart, ...]

    @property
    def text(self) -> str:
        """The text of the message, without synthetic parts."""
        return "\n".join(p.text for p in self.parts if isinstance(p, TextPart) and not p.synthetic)
