"""The program at the other end of a connection: whose it is, and whether it has shown the token."""

import asyncio
import os
import pwd
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

from asyncagents.server.socket_owner import OVERFLOW_UID, Ends, SocketOwners

ROOT = 0
SECONDS = 5.0
"""For one look-up."""

Owner: TypeAlias = Literal["same", "other", "unknown"]
"""Of the user whose server this is, or root's; of another user; the system does not tell."""


class Users:
    """Looks up whose programs connect, one at a time, in a thread that no tool and no request keeps busy."""

    def __init__(self, *, own: int | None = None, find: Callable[[Ends], int | None] | None = None) -> None:
        self.own = os.geteuid() if own is None else own
        self._find = find or SocketOwners().find
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="peer")

    async def find_owner(self, ends: Ends) -> Owner:
        """Raises `TimeoutError` if the system takes too long to tell."""
        async with asyncio.timeout(SECONDS):
            uid = await asyncio.get_running_loop().run_in_executor(self._thread, self._find, ends)
        if uid is None or uid == OVERFLOW_UID:
            return "unknown"
        return "same" if uid in {self.own, ROOT} else "other"

    def name_owner(self) -> str:
        """Name the user whose server this is, for people."""
        try:
            return f"{pwd.getpwuid(self.own).pw_name} (uid {self.own})"
        except KeyError:
            return f"uid {self.own}"

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class Peer:
    """One for each connection, so that whoever takes over an address or a port inherits nothing."""

    def __init__(self, users: Users | None = None, ends: Ends | None = None) -> None:
        self._users = users
        self._ends = ends
        self._owner: Owner | None = None
        self.proven = False
        """The request that is answered was let in by the token."""
        self.is_streaming = False
        """It is sent a stream."""

    async def find_owner(self) -> Owner:
        """Look up once whose program it is. A look-up that took too long is made again."""
        if self._users is None or self._ends is None:
            return "unknown"
        if self._owner is None:
            try:
                self._owner = await self._users.find_owner(self._ends)
            except TimeoutError:
                return "unknown"
        return self._owner
