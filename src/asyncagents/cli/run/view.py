"""Views of a running session: text with tools, JSON, or a stream of events."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.run.result import RunResult, as_json
from asyncagents.cli.run.tool_view import ToolView
from asyncagents.cli.terminal.screen import Screen, dollars, one_line, token_text
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage, sort_key
from asyncagents.domain.conversation.part import Part, ReasoningPart, TextPart
from asyncagents.domain.conversation.status import Retry
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    SessionCreated,
    SessionStatus,
    SessionUpdated,
    encode_event,
)
from asyncagents.domain.id import Ids, MessageId, PartId, SessionId


class View(Protocol):
    def show(self, event: Event) -> None:
        """Show an event, unless its content was shown before."""
        ...

    def show_held(self) -> None:
        """Show what was held back, after a moment without events."""
        ...

    def show_answer(self, entry: MessageWithParts) -> None:
        """Show a stored answer."""
        ...

    def end(self, result: RunResult) -> None: ...


class UnshownText(Struct, frozen=True):
    """A part, and the text of it that was not shown before."""

    part: Part
    words: str = ""


class TextTracker:
    """Yields the text of a session's new messages once, from deltas or from parts that have grown.

    This process sends deltas, another one parts. `last` is the newest message before the run: if it is
    unfinished, it counts as new once it grows or completes without an error (at once, if `live`), and as old
    if it was interrupted. Summaries are skipped, unless one answers the prompt `asked`.
    """

    def __init__(
        self,
        session_id: SessionId,
        last: MessageWithParts | None,
        *,
        live: bool = False,
        asked: MessageId | None = None,
    ) -> None:
        self._session_id = session_id
        self._asked = asked
        self._last_id = last.info.id if last is not None else None
        self._before = sort_key(last.info) if last is not None else ""
        self._live = live
        self._ended = last is not None and last.info.time.completed is not None
        unfinished = last if last is not None and _is_unfinished(last) else None
        self._under_way = None if live else unfinished
        self._new: set[MessageId] = {unfinished.info.id} if unfinished is not None and live else set()
        self._early: dict[MessageId, dict[PartId, Part]] = {}
        self._parts: dict[PartId, TextPart | ReasoningPart] = {}
        self._shown: dict[PartId, int] = {}

    def new_text(self, event: Event) -> Iterator[UnshownText]:
        match event:
            case MessageUpdated(session_id=self._session_id, info=AssistantMessage() as info):
                if not info.summary or info.parent_id == self._asked:
                    yield from self._message(info)
            case PartUpdated(session_id=self._session_id, part=part) if not isinstance(part, UnknownPart):
                yield from self._part(part)
            case PartDelta(session_id=self._session_id, part_id=part_id) if part_id in self._parts:
                yield from self._unshown_text(self._parts[part_id], event.offset, event.delta)
            case _:
                pass

    def is_new(self, info: AssistantMessage) -> bool:
        under_way = self._live and info.id == self._last_id and not self._ended
        return info.session_id == self._session_id and (sort_key(info) > self._before or under_way)

    def _message(self, info: AssistantMessage) -> Iterator[UnshownText]:
        if self._under_way is not None and info.id == self._under_way.info.id and info.time.completed:
            entry, self._under_way = self._under_way, None
            if info.error is None:
                yield from self._begin(
                    info.id, (part for part in entry.parts if not isinstance(part, UnknownPart))
                )
        if sort_key(info) > self._before:
            yield from self._begin(info.id, self._early.pop(info.id, {}).values())

    def _begin(self, message_id: MessageId, parts: Iterable[Part]) -> Iterator[UnshownText]:
        self._new.add(message_id)
        for part in parts:
            yield from self._part(part)

    def _part(self, part: Part) -> Iterator[UnshownText]:
        if self._under_way is not None and _has_grown(self._under_way, part):
            self._new.add(part.message_id)
            self._under_way = None
        if part.message_id in self._new:
            yield from self._new_part(part)
        elif part.message_id > self._before:  # the role of its message is not known yet
            self._early.setdefault(part.message_id, {})[part.id] = part

    def _new_part(self, part: Part) -> Iterator[UnshownText]:
        if not isinstance(part, TextPart | ReasoningPart):
            yield UnshownText(part)
        elif not (isinstance(part, TextPart) and part.synthetic):
            self._parts[part.id] = part
            yield from self._unshown_text(part, 0, part.text)

    def _unshown_text(self, part: TextPart | ReasoningPart, offset: int, text: str) -> Iterator[UnshownText]:
        shown = self._shown.get(part.id, 0)
        words = text[shown - offset :] if offset <= shown else ""
        if words:
            self._shown[part.id] = shown + len(words)
            yield UnshownText(part, words)


def _is_unfinished(entry: MessageWithParts) -> bool:
    info = entry.info
    return isinstance(info, AssistantMessage) and info.time.completed is None and not info.summary


def _has_grown(entry: MessageWithParts, part: Part) -> bool:
    """Return whether the part adds text to the unfinished message; closing it adds none."""
    if part.message_id != entry.info.id:
        return False
    before = next((_length(old) for old in entry.parts if old.id == part.id), 0)
    return _length(part) > before


def _length(part: Part | UnknownPart) -> int:
    return len(part.text) if isinstance(part, TextPart | ReasoningPart) else 0


class TextView:
    """Writes the answer to stdout; tools, todos, reasoning and retries to stderr."""

    def __init__(self, screen: Screen, tracker: TextTracker, *, tools: ToolView, clock: Clock) -> None:
        self._summaries: set[tuple[MessageId, bool]] = set()
        self._screen = screen
        self._tracker = tracker
        self._tools = tools
        self._clock = clock
        self._open_part_id: PartId | None = None

    def show(self, event: Event) -> None:
        match event:
            case SessionStatus(session_id=self._tools.own_id, status=Retry() as retry):
                seconds = max(0, retry.next - self._clock.now()) / 1000
                self._screen.note(f"try {retry.attempt + 1} in {seconds:.0f} s: {one_line(retry.message)}")
            case _:
                if isinstance(event, MessageUpdated) and isinstance(event.info, AssistantMessage):
                    self._note_summary(event.info)
                for fresh in self._tracker.new_text(event):
                    self._write(fresh.part, fresh.words)
                self._tools.show_event(event)

    def show_held(self) -> None:
        self._tools.show_held()

    def _note_summary(self, info: AssistantMessage) -> None:
        """Note that a summary begins, and what it cost when it ends."""
        state = (info.id, info.time.completed is not None)
        if not info.summary or not self._tracker.is_new(info) or state in self._summaries:
            return
        self._summaries.add(state)
        if not info.time.completed:
            self._screen.note("summarising the conversation")
        elif info.error is None:
            spent = f"{token_text(info.tokens)} tokens, {dollars(info.cost)}"
            self._screen.note(f"the conversation was summarised, {spent}")

    def _write(self, part: Part, words: str) -> None:
        match part:
            case TextPart():
                if part.id != self._open_part_id:  # each text part starts on a new line
                    self._screen.end_line()
                self._open_part_id = part.id
                self._screen.write_answer(words)
            case ReasoningPart():
                self._screen.write_reasoning(words)
            case _:
                pass

    def show_answer(self, entry: MessageWithParts) -> None:
        self._screen.write_answer(entry.text)

    def end(self, result: RunResult) -> None:
        self._tools.show_held()
        self._screen.end_line()


class JsonView:
    """Prints one JSON object at the end."""

    def show(self, event: Event) -> None:
        pass

    def show_held(self) -> None:
        pass

    def show_answer(self, entry: MessageWithParts) -> None:
        pass

    def end(self, result: RunResult) -> None:
        click.echo(as_json(result))


class StreamView:
    """Prints every event of a session tree as a JSON line, and the result as the last."""

    def __init__(self, ids: Ids, tree: set[SessionId]) -> None:
        self._ids = ids
        self._tree = tree
        self._known: dict[str, object] = {}
        """Messages and parts as last printed."""

    def show(self, event: Event) -> None:
        if isinstance(event, SessionCreated | SessionUpdated) and event.info.parent_id in self._tree:
            self._tree.add(event.session_id)
        if event.session_id in self._tree and self._is_new(event):
            click.echo(encode_event(self._ids.event(), event))

    def show_held(self) -> None:
        pass

    def _is_new(self, event: Event) -> bool:
        match event:
            case MessageUpdated(info=content) | PartUpdated(part=content) if content.id is not None:
                before = self._known.get(content.id)
                self._known[content.id] = content
                return before != content
            case _:
                return True

    def show_answer(self, entry: MessageWithParts) -> None:
        pass

    def end(self, result: RunResult) -> None:
        whole = msgspec.json.decode(as_json(result))
        click.echo(msgspec.json.encode({"type": "result", **whole}))
