"""An append-only text of a streaming part; chunks are joined on read."""

from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.part import PartTime, ReasoningPart, TextPart
from asyncagents.domain.id import PartId

StreamedPart: TypeAlias = TextPart | ReasoningPart


class NewText(Struct, frozen=True):
    part_id: PartId
    text: str
    offset: int


class TextBuffer:
    """The text of a streaming text or reasoning part; chunks are joined on read."""

    def __init__(self, part: StreamedPart) -> None:
        self._part = part
        self._chunks: list[str] = []
        self.length = 0
        self.clean = True
        self.continues = False
        """Whether a plugin's note at the end asks for another step."""

    def add(self, text: str) -> NewText:
        offset = self.length
        self._chunks.append(text)
        self.length += len(text)
        self.clean = False
        return NewText(self._part.id, text, offset)

    def save(self) -> StreamedPart:
        """Return the part as it is now and mark it as saved."""
        self.clean = True
        return self.part()

    def part(self) -> StreamedPart:
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return replace(self._part, text=self._chunks[0] if self._chunks else "")

    @property
    def id(self) -> PartId:
        return PartId(self._part.id)

    def trimmed_part(self) -> TextPart | None:
        """Return an open text part with trailing whitespace removed; None if it is not one."""
        part = self.part()
        if self.is_closed or not isinstance(part, TextPart):
            return None
        return replace(part, text=part.text.rstrip())

    def rewrite(self, text: str) -> None:
        self._chunks, self.clean = [text], False

    def close(self, now: int, metadata: dict[str, Any] | None = None) -> None:
        part = self.part()
        time = part.time or PartTime(start=now)
        text = part.text.rstrip() if isinstance(part, TextPart) else part.text
        self._part = replace(part, text=text, time=replace(time, end=now), metadata=metadata or part.metadata)
        self._chunks = [text]
        self.clean = False

    @property
    def is_closed(self) -> bool:
        return self._part.time is not None and self._part.time.end is not None
