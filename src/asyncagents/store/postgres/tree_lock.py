"""Locks on trees of sessions: a writing transaction locks a whole tree, so verbs need no row locks."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asyncagents.domain.bounded_dict import BoundedDict

MAX_ROOTS = 50_000


def lock_key(root: str) -> int:
    """The advisory lock key of a tree; equals `tree_key()` in the schema."""
    return int.from_bytes(hashlib.md5(root.encode(), usedforsecurity=False).digest()[:8], signed=True)


class TreeLocks:
    """Caches the roots of sessions, and orders the transactions of this process that wait for a tree."""

    def __init__(self) -> None:
        self._roots: BoundedDict[str, str] = BoundedDict(MAX_ROOTS)
        self._queues: dict[str, tuple[asyncio.Lock, int]] = {}

    def root_of(self, session_id: str) -> str | None:
        return self._roots.get(session_id)

    def remember_root(self, session_id: str, root_id: str) -> None:
        """Remember the root of a session; it never changes."""
        self._roots[session_id] = root_id

    @asynccontextmanager
    async def lock(self, root: str) -> AsyncIterator[None]:
        """Wait for a tree within this process: first come, first served, without holding a connection."""
        lock, users = self._queues.get(root) or (asyncio.Lock(), 0)
        self._queues[root] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._queues[root]
            if users == 1:
                del self._queues[root]
            else:
                self._queues[root] = lock, users - 1
