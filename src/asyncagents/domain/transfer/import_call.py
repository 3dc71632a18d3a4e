"""Imports the calls of a session: settled, waiting for a result from outside, or cut off."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from asyncagents.domain.call.call import Call, render
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.conversation.codec import DECODE_ERRORS
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolPart, ToolPending, ToolRunning, ToolWaiting
from asyncagents.domain.shape import encode
from asyncagents.domain.transfer.call_records import (
    at_rest,
    call_from_mark,
    call_from_record,
    without_server_task,
    without_webhook,
)
from asyncagents.domain.transfer.legacy import Json
from asyncagents.domain.transfer.records import CALL_CUT_OFF, LARGEST, ImportedMessage
from asyncagents.errors import InvalidInput


class CallImporter:
    """Imports one tool part after the other and collects their calls."""

    def __init__(
        self, records: Mapping[str, Json], messages: Sequence[ImportedMessage], *, now: int, trusted: bool
    ) -> None:
        self._records = dict(records)
        self._messages = {each.info.id: each for each in messages}
        self._last = messages[-1].info.id if messages else None
        self._now = now
        self._trusted = trusted
        self._ids: set[str] = set()
        self.calls: list[Call] = []
        self.dropped_webhook = False
        """Whether a webhook address was dropped."""
        self.dropped_server_task = False
        """Whether a task of an MCP server was dropped."""

    def import_part(self, part: ToolPart, plain: Json, mark: dict[str, Any] | None) -> Json:
        """Return the JSON of the imported part and collect its call."""
        record = self._take_record(part, mark)
        known = self._call_of_record(record, part) if record is not None else None
        if mark is not None:
            call = at_rest(call_from_mark(mark, part), now=self._now)
            if call.open and known is not None and known.is_settled:  # the result is newer than the mark
                call = call.with_state(known.state)
            return self._add(call, plain)
        if isinstance(part.state, ToolWaiting) and known is not None:
            return self._add(known, plain)
        if isinstance(part.state, ToolPending | ToolRunning | ToolWaiting):
            time = {"start": self._now, **plain["state"].get("time", {}), "end": self._now}
            error = {"status": "error", "input": part.state.input, "error": CALL_CUT_OFF, "time": time}
            return {**plain, "state": error}
        return plain

    def check_all_used(self) -> None:
        for call_id in self._records:
            raise InvalidInput(f"pending call {call_id!r} belongs to none of the session's parts")

    def _take_record(self, part: ToolPart, mark: dict[str, Any] | None) -> Json | None:
        named = mark.get("id") if mark else getattr(part.state, "pending_id", None)
        if isinstance(named, str):
            return self._records.pop(named, None)
        found = next((key for key, each in self._records.items() if each.get("partID") == part.id), None)
        return self._records.pop(found) if found is not None else None

    def _call_of_record(self, record: Json, part: ToolPart) -> Call:
        try:
            pending = msgspec.convert({"partID": part.id, **record}, PendingToolCall)
        except DECODE_ERRORS as error:
            raise InvalidInput(f"the record of the call of part {part.id} is unreadable: {error}") from error
        if pending.id != getattr(part.state, "pending_id", pending.id):
            raise InvalidInput(f"the record of the call of part {part.id} has another id: {pending.id!r}")
        message = self._messages[part.message_id]
        agent = message.info.agent if isinstance(message.info, AssistantMessage) else ""
        shown = part.message_id != self._last
        return call_from_record(pending, part, turn=message.mark.turn or 0, agent=agent, shown=shown)

    def _add(self, call: Call, plain: Json) -> Json:
        if call.id in self._ids:
            raise InvalidInput(f"call {call.id!r} occurs twice")
        self._ids.add(call.id)
        _check_times(call)
        if not self._trusted:
            hushed = without_webhook(call)
            self.dropped_webhook = self.dropped_webhook or hushed is not call
            call = without_server_task(hushed)
            self.dropped_server_task = self.dropped_server_task or call is not hushed
        self.calls.append(call)
        rendered: Json = msgspec.json.decode(encode(render(call)))
        return {**plain, "state": rendered["state"]}


def _check_times(call: Call) -> None:
    due = call.open.due if call.open else None
    for number in (call.created, call.started, call.turn, due, call.later.due if call.later else None):
        if number is not None and not 0 <= number <= LARGEST:
            raise InvalidInput(f"{number} is not a valid time of call {call.id!r}: expected 0 to 2^53")
