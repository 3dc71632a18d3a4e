"""Trees of sessions: a transaction that writes has one to itself, so that verbs need not lock row by row."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

KNOWN_ROOTS = 50_000


def lock_key(root: str) -> int:
    """As `tree_key()` in the schema."""
    return int.from_bytes(hashlib.md5(root.encode(), usedforsecurity=False).digest()[:8], signed=True)


class Trees:
    """What this process knows of trees: which sessions are in them, and who of its own waits for one."""

    def __init__(self) -> None:
        self._roots: OrderedDict[str, str] = OrderedDict()
        self._queues: dict[str, tuple[asyncio.Lock, int]] = {}

    def root_of(self, session_id: str) -> str | None:
        return self._roots.get(session_id)

    def keep(self, session_id: str, root_id: str) -> None:
        """A session never changes its tree."""
        self._roots[session_id] = root_id
        if len(self._roots) > KNOWN_ROOTS:
            self._roots.popitem(last=False)

    @asynccontextmanager
    async def turn(self, root: str) -> AsyncIterator[None]:
        """Those of one process go in the order in which they came, and hold no connection while they wait."""
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
