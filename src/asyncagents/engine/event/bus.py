"""Live events within this process; a listener that falls behind is cut off and catches up from the store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from asyncagents.domain.event import Event
from asyncagents.domain.id import SessionId
from asyncagents.engine.event.queue import BoundedQueue

QUEUE_SIZE = 1024

DraftEvents: TypeAlias = Callable[[], list[Event]]


class Listener(Protocol):
    """Gets the events of a bus, without waiting."""

    def push(self, event: Event) -> None: ...

    def close(self) -> None: ...


class EventRelay(Listener, Protocol):
    """A listener that relays streaming texts between processes."""

    def streaming_events(self, wanted: Callable[[SessionId], bool]) -> list[Event]: ...

    def amend(self, event: Event) -> Event:
        """Return the event that listeners get instead of this one."""
        ...


class Subscription(BoundedQueue[Event]):
    """The queue of one listener."""

    def push(self, event: Event) -> None:
        self.add(event)


class Bus:
    """Publishes events without waiting: a slow listener is cut off rather than slowing the engine."""

    def __init__(self, *, size: int = QUEUE_SIZE) -> None:
        self._size = size
        self._listeners: dict[SessionId | None, dict[Listener, None]] = {}
        self._relay: EventRelay | None = None
        self._closed = False
        self._drafts: dict[SessionId, DraftEvents] = {}
        self.remote_streaming_events: Callable[[Callable[[SessionId], bool]], list[Event]] = lambda wanted: []
        """Parts that stream in other processes, as far as they are known here."""
        self._amend: Callable[[Event], Event] = lambda event: event
        self.complete_revision = 0
        """Newest store revision up to which all events were published, or are being published."""
        self.latest_revision = 0
        """Newest store revision of any published event; the current one has this revision or an older one."""

    def advance_revision(self, upto: int, at: int = 0) -> None:
        self.complete_revision = max(self.complete_revision, upto)
        self.latest_revision = max(self.latest_revision, at, upto)

    def add_draft(self, session_id: SessionId, draft: DraftEvents) -> None:
        """Register the draft that a session streams; listeners that come later read its parts so far."""
        self._drafts[session_id] = draft

    def remove_draft(self, session_id: SessionId, draft: DraftEvents) -> None:
        if self._drafts.get(session_id) == draft:
            del self._drafts[session_id]

    def is_streaming_here(self, session_id: SessionId) -> bool:
        return session_id in self._drafts

    @property
    def has_listeners(self) -> bool:
        """Whether there is a listener other than a relay."""
        return any(each is not self._relay for listeners in self._listeners.values() for each in listeners)

    def streaming_events(self, wanted: Callable[[SessionId], bool]) -> list[Event]:
        """Return the parts that are streaming, with all text published so far."""
        drafts = [draft for session_id, draft in self._drafts.items() if wanted(session_id)]
        return [event for draft in drafts for event in draft()] + self.remote_streaming_events(wanted)

    def publish(self, event: Event) -> None:
        if not self._listeners:
            return
        event = self._amend(event)
        keys = (None,) if event.session_id is None else (event.session_id, None)
        for key in keys:
            for listener in self._listeners.get(key, ()):
                listener.push(event)

    def close(self) -> None:
        """Close all subscriptions, also those that begin later."""
        self._closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()

    def attach_relay(self, relay: EventRelay) -> None:
        """Attach the relay to other processes, for the lifetime of the bus."""
        self._listeners.setdefault(None, {})[relay] = None
        self._relay = relay
        self.remote_streaming_events = relay.streaming_events
        self._amend = relay.amend

    @contextmanager
    def subscribe(self, session_id: SessionId | None = None) -> Iterator[Subscription]:
        """Subscribe to the events of one session, or of all."""
        subscription = Subscription(self._size)
        with self.attach(subscription, session_id):
            yield subscription

    @contextmanager
    def attach(self, listener: Listener, session_id: SessionId | None = None) -> Iterator[None]:
        """Attach a listener to the events of one session, or of all."""
        listeners = self._listeners.setdefault(session_id, {})
        listeners[listener] = None
        if self._closed:
            listener.close()
        try:
            yield
        finally:
            del listeners[listener]
            if not listeners:
                self._listeners.pop(session_id, None)
