"""Record which file contents each session has read and what each call plans to touch; in memory, bounded."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from msgspec import Struct

from asyncagents.domain.id import CallId, SessionId
from asyncagents.errors import ToolError
from asyncagents.tools.file.fingerprint import Stamp
from asyncagents.tools.file.path import Place

K = TypeVar("K")
V = TypeVar("V")

MOST_FILES = 20_000
MOST_CALLS = 4_000


class Planned(Struct, frozen=True):
    """The path a call may touch, and the hash of the content that its preview was made from."""

    place: Place
    before: str | None = None
    more: tuple["Planned", ...] = ()
    """The other files of a call that changes several."""
    guarded: bool = False
    """Whether a person was asked because the path is guarded."""


class Recent(Generic[K, V]):
    """A thread-safe LRU map of at most `most` entries."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)


class Seen:
    """Fingerprints by session and path, plans by call; a dropped entry costs one more read."""

    def __init__(self, *, files: int = MOST_FILES, calls: int = MOST_CALLS) -> None:
        self._stamps: Recent[tuple[SessionId, str], Stamp] = Recent(files)
        self._plans: Recent[CallId, Planned] = Recent(calls)

    def note(self, session_id: SessionId, place: Place, stamp: Stamp) -> None:
        self._stamps.put((session_id, place.path), stamp)

    def known(self, session_id: SessionId, place: Place) -> Stamp | None:
        return self._stamps.get((session_id, place.path))

    def plan(self, call_id: CallId, planned: Planned) -> None:
        self._plans.put(call_id, planned)

    def planned(self, call_id: CallId) -> Planned:
        """Return the plan of a call, which was permitted; raise `ToolError` if there is none."""
        found = self._plans.get(call_id)
        if found is None:
            raise ToolError("This call was not planned, so nothing was done; call the tool again.")
        return found
