"""Decides when to NOTIFY other processes of commits: soon, batched, and by one of the processes."""

import msgspec

from asyncagents.domain.clock import Rng

BATCH_WINDOW_SECONDS = 0.025
"""Batch window: commits within it are announced together, and by one of the processes."""
RECEIVED_SECONDS = 0.01
"""A notification reaches all processes within this time; one that misses it polls later."""
MAX_PAYLOAD_BYTES = 7_900
"""Max bytes of one notification."""
ALL_POOLS = "*"
NEW_WORK = f'["{ALL_POOLS}"]'


def decode_pools(payload: str) -> frozenset[str]:
    """Decode a payload: the pools that have work in the queue."""
    return frozenset(msgspec.json.decode(payload, type=list[str])) if payload else frozenset()


class NotifySchedule:
    """Work is announced at once, unless it was announced a moment ago. Times are those of the event loop."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.at: float | None = None
        """When to notify; None: there is nothing to announce."""
        self._pools: set[str] = set()
        self._last = 0.0
        """Time of the last commit that is not announced yet."""
        self._announced_at = 0.0
        """When this or another process last announced work."""

    def add_commit(self, now: float, pools: frozenset[str]) -> None:
        """Schedule the announcement of a commit. `pools`: those that it queued work for."""
        self._last = now
        self._pools |= pools
        at = max(now, self._announced_at + self._jitter()) if pools else now + BATCH_WINDOW_SECONDS
        self.at = at if self.at is None else min(at, self.at)

    def receive(self, now: float, pools: frozenset[str]) -> None:
        """Handle a notification of another process: it covers commits of ours that are old enough. Work is
        still announced: what counts is when the other process sent, not when this one received."""
        if pools:
            self._announced_at = now
        if self._last < now - RECEIVED_SECONDS and not self._pools:
            self._clear()

    def take_payload(self, now: float) -> str:
        """Take the payload to send now."""
        payload = msgspec.json.encode(sorted(self._pools)).decode() if self._pools else ""
        if self._pools:
            self._announced_at = now
        self._clear()
        return payload if len(payload.encode()) <= MAX_PAYLOAD_BYTES else NEW_WORK

    def _clear(self) -> None:
        self.at = None
        self._pools.clear()

    def _jitter(self) -> float:
        """A random part of the window, so that one process is first and the others receive it in time."""
        return BATCH_WINDOW_SECONDS * (0.5 + self._rng.below(1000) / 1000)
