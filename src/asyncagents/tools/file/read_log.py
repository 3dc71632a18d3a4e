"""Record which file contents each session has read and what each call plans to touch; in memory, bounded."""

from threading import Lock
from typing import Generic, TypeVar

from msgspec import Struct

from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.id import CallId, SessionId
from asyncagents.errors import ToolError
from asyncagents.tools.file.fingerprint import Fingerprint
from asyncagents.tools.file.path import ResolvedPath

K = TypeVar("K")
V = TypeVar("V")

MOST_FILES = 20_000
MOST_CALLS = 4_000


class CallPlan(Struct, frozen=True):
    """The path a call may touch, and the hash of the content that its preview was made from."""

    place: ResolvedPath
    before: str | None = None
    more: tuple["CallPlan", ...] = ()
    """The other files of a call that changes several."""
    guarded: bool = False
    """Whether a person was asked because the path is guarded."""


class Recent(Generic[K, V]):
    """A thread-safe LRU map of at most `most` entries."""

    def __init__(self, most: int) -> None:
        self._entries: BoundedDict[K, V] = BoundedDict(most)
        self._lock = Lock()

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._entries[key] = value

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)


class ReadLog:
    """Fingerprints by session and path, plans by call; a dropped entry costs one more read."""

    def __init__(self, *, files: int = MOST_FILES, calls: int = MOST_CALLS) -> None:
        self._fingerprints: Recent[tuple[SessionId, str], Fingerprint] = Recent(files)
        self._plans: Recent[CallId, CallPlan] = Recent(calls)

    def record(self, session_id: SessionId, place: ResolvedPath, stamp: Fingerprint) -> None:
        self._fingerprints.put((session_id, place.path), stamp)

    def known_fingerprint(self, session_id: SessionId, place: ResolvedPath) -> Fingerprint | None:
        return self._fingerprints.get((session_id, place.path))

    def record_plan(self, call_id: CallId, planned: CallPlan) -> None:
        self._plans.put(call_id, planned)

    def plan_of(self, call_id: CallId) -> CallPlan:
        """Return the plan of a call, which was permitted; raise `ToolError` if there is none."""
        found = self._plans.get(call_id)
        if found is None:
            raise ToolError("This call was not planned, so nothing was done; call the tool again.")
        return found
