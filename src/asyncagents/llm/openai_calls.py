"""Calls put together from deltas, for servers that number them, name them, both or neither."""

from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.llm.answer_size import AnswerSize
from asyncagents.llm.arguments import read_arguments
from asyncagents.llm.model import ModelEvent, ToolCallReady, ToolCallStart
from asyncagents.llm.openai_wire import ToolDelta
from asyncagents.llm.tool_name import NAMELESS

MOST_READ = 128 * 1024 * 1024
"""Characters: half a second's work, for a call of a hundred kilobytes in pieces of a word each."""


class _Call(Struct):
    key: str
    wire_id: str
    name: str = ""
    pieces: list[str] = []

    @property
    def arguments(self) -> dict[str, Any] | None:
        return read_arguments("".join(self.pieces))


class Calls:
    def __init__(self, seed: str, size: AnswerSize) -> None:
        self._seed = seed
        self._size = size
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._keys: set[str] = set()
        self._read = 0
        """Characters that were read to find out whether a call is complete."""

    def add(self, delta: ToolDelta) -> ToolCallStart | None:
        """A call has started once its name is known."""
        name = (delta.function and delta.function.name) or ""
        given = delta.function.arguments if delta.function else None
        piece = msgspec.json.encode(given).decode() if isinstance(given, dict) else given or ""
        call = self._known(delta, name, piece) or self._new(delta)
        call.wire_id = call.wire_id or delta.id or ""
        self._by_id.setdefault(call.wire_id, call)
        if piece:
            self._size.add_arguments(call.key, piece)
            call.pieces.append(piece)
        if not name or call.name:
            return None
        self._size.add_text(name)
        call.name = name
        return ToolCallStart(call.key, name)

    def ready(self) -> list[ModelEvent]:
        """All of them, in order, once the model has stopped; broken arguments leave a call unready."""
        events: list[ModelEvent] = []
        for call in self._calls:
            arguments = call.arguments
            if not call.name:
                events.append(ToolCallStart(call.key, NAMELESS))
            elif arguments is not None:
                events.append(ToolCallReady(call.key, call.name, arguments))
        return events

    def _known(self, delta: ToolDelta, name: str, piece: str) -> _Call | None:
        """The call that this delta goes on with, if it does not begin another."""
        if delta.index is not None:
            call = self._by_index.get(delta.index)
        elif delta.id:
            call = self._by_id.get(delta.id)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or not (name and call.name):
            return call
        if delta.id and call.wire_id:
            return call if delta.id == call.wire_id else None
        whole = bool(piece) and self._is_whole(call)
        return None if whole or name != call.name else call

    def _is_whole(self, call: _Call) -> bool:
        """Say whether the arguments of a call are complete, as far as they may be read for that.

        A server that repeats the name with each piece has all pieces read for each: what is no end of an
        object is not read, and not more than `MOST_READ` in all.
        """
        if not call.pieces or not call.pieces[-1].rstrip().endswith(("}", '"')) or self._read > MOST_READ:
            return False
        self._read += sum(map(len, call.pieces))
        return call.arguments is not None

    def _new(self, delta: ToolDelta) -> _Call:
        self._size.add_call(delta.id)
        key = delta.id or ""
        if not key or key in self._keys:
            key = f"call_{self._seed}_{len(self._calls)}"
        call = _Call(key, delta.id or "")
        self._keys.add(key)
        self._calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        return call
