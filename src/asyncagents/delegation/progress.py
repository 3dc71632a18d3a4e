"""Publish a child's progress on the parent's call that waits for it, for people only; nothing is stored."""

import asyncio
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.permission import TASK
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.part import ToolPart, ToolRunning, ToolState
from asyncagents.domain.event import Event, PartUpdated, SessionDeleted
from asyncagents.domain.id import PartId, SessionId
from asyncagents.engine.event.bus import Bus
from asyncagents.store.tx import Commit

INTERVAL_SECONDS = 1.0
MOST_CALLS = 20


class _WaitingCall(Struct, eq=False):
    """The part of a waiting call as last published, and the child's calls, the newest last."""

    part: ToolPart
    calls: dict[PartId, dict[str, Any]]
    timer: asyncio.TimerHandle | None = None
    published_at: float = 0.0


class ChildProgress:
    """Follows commits on the event loop, and tracks the calls that wait for a task."""

    def __init__(self, *, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._waiting_calls: dict[SessionId, _WaitingCall] = {}

    def on_commit(self, commit: Commit) -> None:
        for event in commit.events:
            self._handle_event(event)

    def close(self) -> None:
        for child in list(self._waiting_calls):
            self._forget(child)

    def _handle_event(self, event: Event) -> None:
        match event:
            case PartUpdated(part=ToolPart(tool=tool) as part):
                if tool == TASK:
                    self._track_wait(part)
                if event.session_id in self._waiting_calls:
                    self._record_call(event.session_id, part)
            case SessionDeleted(session_id=session_id):
                self._forget(session_id)
            case _:
                pass

    def _track_wait(self, part: ToolPart) -> None:
        """Start, update or end the tracking of a call that waits for a task."""
        child = _child_id(part.state)
        if child is None:
            for known in [known for known, each in self._waiting_calls.items() if each.part.id == part.id]:
                self._forget(known)
        elif child in self._waiting_calls:
            self._waiting_calls[child].part = part
        else:
            self._waiting_calls[child] = _WaitingCall(part, {})

    def _record_call(self, child: SessionId, part: ToolPart) -> None:
        watched = self._waiting_calls[child]
        watched.calls[part.id] = {"id": part.id, "tool": part.tool, "state": _state_summary(part.state)}
        while len(watched.calls) > MOST_CALLS:
            del watched.calls[next(iter(watched.calls))]
        loop = asyncio.get_running_loop()
        if watched.timer is None:
            due = max(loop.time(), watched.published_at + INTERVAL_SECONDS)
            watched.timer = loop.call_at(due, self._publish, child)

    def _publish(self, child: SessionId) -> None:
        watched = self._waiting_calls[child]
        watched.timer, watched.published_at = None, asyncio.get_running_loop().time()
        state = watched.part.state
        assert isinstance(state, ToolRunning), "only running calls are tracked"
        metadata = {**(state.metadata or {}), "summary": list(watched.calls.values())}
        part = replace(watched.part, state=replace(state, metadata=metadata))
        assert part.session_id is not None, "a published part has a session"
        self._bus.publish(PartUpdated(session_id=part.session_id, part=part, time=self._clock.now()))

    def _forget(self, child: SessionId) -> None:
        watched = self._waiting_calls.pop(child, None)
        if watched is not None and watched.timer is not None:
            watched.timer.cancel()


def _child_id(state: ToolState) -> SessionId | None:
    """Return the child session that the call waits for; None: it does not wait."""
    if not isinstance(state, ToolRunning) or not state.metadata:
        return None
    child = state.metadata.get("sessionId")
    return SessionId(child) if isinstance(child, str) else None


def _state_summary(state: ToolState) -> dict[str, str]:
    status = type(state).__struct_config__.tag
    title = getattr(state, "title", None)
    return {"status": str(status), "title": title} if title else {"status": str(status)}
