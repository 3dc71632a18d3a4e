"""Assemble tool calls from deltas of servers that send an index, an id, both or neither."""

from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.llm.http.answer_size import AnswerSize
from asyncagents.llm.model import ModelEvent, ToolCallReady, ToolCallStart
from asyncagents.llm.wire.json_repair import read_arguments
from asyncagents.llm.wire.tool_name import NAMELESS

MOST_READ = 128 * 1024 * 1024
"""Characters parsed per answer to detect complete calls: about half a second of work."""


class FunctionDelta(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolDelta(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _Call(Struct):
    key: str
    wire_id: str
    name: str = ""
    pieces: list[str] = []

    @property
    def arguments(self) -> dict[str, Any] | None:
        return read_arguments("".join(self.pieces))


class CallAssembler:
    def __init__(self, seed: str, size: AnswerSize) -> None:
        self._seed = seed
        self._size = size
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._keys: set[str] = set()
        self._read = 0
        """Characters parsed so far to detect complete calls."""

    def add(self, delta: ToolDelta) -> ToolCallStart | None:
        """Add a delta; return the start event once the call's name is known."""
        name = (delta.function and delta.function.name) or ""
        given = delta.function.arguments if delta.function else None
        piece = msgspec.json.encode(given).decode() if isinstance(given, dict) else given or ""
        call = self._find_call(delta, name, piece) or self._begin_call(delta)
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

    def ready_events(self) -> list[ModelEvent]:
        """Return the final events of all calls, in order; a call with invalid arguments gets none."""
        events: list[ModelEvent] = []
        for call in self._calls:
            arguments = call.arguments
            if not call.name:
                events.append(ToolCallStart(call.key, NAMELESS))
            elif arguments is not None:
                events.append(ToolCallReady(call.key, call.name, arguments))
        return events

    def _find_call(self, delta: ToolDelta, name: str, piece: str) -> _Call | None:
        """Return the call that this delta continues; None if it begins a new one."""
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
        whole = bool(piece) and self._is_complete(call)
        return None if whole or name != call.name else call

    def _is_complete(self, call: _Call) -> bool:
        """Return whether the arguments of a call are complete JSON; False once `MOST_READ` is used up.

        A server that repeats the name in each delta makes this parse all pieces each time, so only text that
        can be the end of an object is parsed.
        """
        if not call.pieces or not call.pieces[-1].rstrip().endswith(("}", '"')) or self._read > MOST_READ:
            return False
        self._read += sum(map(len, call.pieces))
        return call.arguments is not None

    def _begin_call(self, delta: ToolDelta) -> _Call:
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
