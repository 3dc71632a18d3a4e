"""A reader that was away: it follows the feed from its cursor, in pieces, and must end where the store is."""

import json
from typing import Any

from msgspec.structs import replace

from asyncagents.domain.event import (
    Event,
    MessageRemoved,
    MessageUpdated,
    PartRemoved,
    PartUpdated,
    SessionDeleted,
    SessionStatus,
    SessionUpdated,
    TaskCancelled,
    TaskCleared,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskUpdated,
)
from asyncagents.domain.shape import encode


class Mirror:
    def __init__(self) -> None:
        self.cursor: str | None = None
        self.sessions: dict[str, Any] = {}
        self.statuses: dict[str, Any] = {}
        self.messages: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        self.tasks: dict[str, Any] = {}

    def apply(self, event: Event) -> None:
        match event:
            case SessionUpdated(session_id=session_id, info=session):
                self.sessions[session_id] = _plain(session)
            case SessionStatus(session_id=session_id, status=status):
                self.statuses[session_id] = _plain(status)
            case MessageUpdated(info=message):
                self.messages[message.id] = _plain(message)
            case PartUpdated(part=part) if part.id is not None:
                self.parts[part.id] = _plain(part)
            case MessageRemoved(message_id=message_id):
                self.messages.pop(message_id, None)
                self.parts = {k: v for k, v in self.parts.items() if v["messageID"] != message_id}
            case PartRemoved(part_id=part_id):
                self.parts.pop(part_id, None)
            case SessionDeleted(session_id=session_id):
                self.sessions.pop(session_id, None)
                self.statuses.pop(session_id, None)
                self.messages = _without(self.messages, session_id)
                self.parts = _without(self.parts, session_id)
            case _:
                self._apply_to_tasks(event)

    def _apply_to_tasks(self, event: Event) -> None:
        match event:
            case (
                TaskCreated(task=task)
                | TaskUpdated(task=task)
                | TaskCompleted(task=task)
                | TaskFailed(task=task)
                | TaskCancelled(task=task)
            ):
                self.tasks[task.session_id] = _plain(replace(task, progress=None))
            case TaskCleared(session_id=session_id):
                self.tasks.pop(session_id, None)
            case _:
                pass


def _without(kept: dict[str, Any], session_id: str) -> dict[str, Any]:
    return {key: value for key, value in kept.items() if value["sessionID"] != session_id}


def _plain(value: object) -> Any:
    return json.loads(encode(value))
