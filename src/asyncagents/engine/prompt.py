"""What the model is told: it only ever grows, so that what was sent never changes."""

from collections.abc import Iterable, Iterator, Sequence

from asyncagents.domain.call import pending_text
from asyncagents.domain.codec import UnknownPart
from asyncagents.domain.history import Entry
from asyncagents.domain.id import PartId
from asyncagents.domain.message import AssistantMessage
from asyncagents.domain.part import Part, ReasoningPart, TextPart, ToolCompleted, ToolError, ToolPart
from asyncagents.llm.model import CallMade, FromModel, FromTool, FromUser, Told

INTERRUPTED = "[Tool execution was interrupted]"


class Prompt:
    """The messages of one session's run. `since`: the place from which it is not final yet."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self.since = 0

    def extend(self, entries: Iterable[Entry], shown: frozenset[PartId], *, since: int) -> None:
        """Add what has become final; the next reading starts at `since`."""
        for entry in entries:
            self._told.extend(_told(entry, shown))
        self.since = since

    @property
    def messages(self) -> Sequence[Told]:
        return self._told


def _told(entry: Entry, shown: frozenset[PartId]) -> Iterator[Told]:
    texts = [p.text for p in entry.parts if isinstance(p, TextPart) and not p.ignored and p.text]
    if not isinstance(entry.info, AssistantMessage):
        if texts:
            yield FromUser("\n".join(texts))
        return
    tools = [p for p in entry.parts if isinstance(p, ToolPart)]
    reasoning = _reasoning(entry.parts)
    if not (texts or tools):
        return
    calls = tuple(CallMade(p.call_id, p.tool, p.state.input) for p in tools)
    yield FromModel("\n".join(texts), reasoning, calls)
    for part in tools:
        yield _result(part, shown)


def _reasoning(parts: tuple[Part | UnknownPart, ...]) -> str:
    return "\n".join(p.text for p in parts if isinstance(p, ReasoningPart) and p.text)


def _result(part: ToolPart, shown: frozenset[PartId]) -> FromTool:
    if part.id in shown:
        return FromTool(part.call_id, part.tool, pending_text(part.call_id, part.tool))
    match part.state:
        case ToolCompleted(output=output):
            return FromTool(part.call_id, part.tool, output)
        case ToolError(error=error):
            return FromTool(part.call_id, part.tool, error, failed=True)
        case _:
            return FromTool(part.call_id, part.tool, INTERRUPTED, failed=True)
