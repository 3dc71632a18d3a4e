"""Messages with their parts: one, a page of them, and the history that the model reads."""

from typing import ClassVar

from msgspec import Struct

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import Part, TextPart
from asyncagents.domain.id import PartId
from asyncagents.domain.shape import Shape


class MessageWithParts(Shape, frozen=True, kw_only=True):
    """A message and its parts."""

    schema_name: ClassVar[str] = "Entry"
    info: Message
    parts: tuple[Part | UnknownPart, ...]

    @property
    def text(self) -> str:
        """The text of the message, without synthetic parts."""
        return "\n".join(p.text for p in self.parts if isinstance(p, TextPart) and not p.synthetic)


class MessagePage(Struct, frozen=True):
    """`body`: a JSON array of messages with their parts, oldest first. `first`: the sort id of the oldest,
    if there are older ones."""

    body: bytes
    first: str | None = None
    created: int = 0
    """When the oldest was created, if there are older ones."""


class ModelHistory(Struct, frozen=True):
    """The history before the last step, which alone can still change."""

    entries: tuple[MessageWithParts, ...]
    shown: frozenset[PartId]
    since: int
    head: tuple[MessageWithParts, ...] = ()
    """The request for the newest summary and the summary; the entries begin with the tail."""
