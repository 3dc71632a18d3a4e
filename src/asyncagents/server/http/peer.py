"""The program at the other end of a connection: its user, and whether it has sent the token."""

import asyncio
import os
import pwd
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

from asyncagents.server.http.socket_owner import OVERFLOW_UID, Ends, SocketOwners

ROOT = 0
SECONDS = 5.0
"""Timeout of one lookup."""

Owner: TypeAlias = Literal["same", "other", "unknown"]
"""`same`: the server's user or root. `other`: another user. `unknown`: the system does not tell."""


class Users:
    """Looks up the users of connecting programs, one at a time, in a thread of its own."""

    def __init__(self, *, own: int | None = None, find: Callable[[Ends], int | None] | None = None) -> None:
        self.own = os.geteuid() if own is None else own
        self._find = find or SocketOwners().find
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="peer")

    async def find_owner(self, ends: Ends) -> Owner:
        """Compare the user of a connection's client with the server's. Raises `TimeoutError`."""
        async with asyncio.timeout(SECONDS):
            uid = await asyncio.get_running_loop().run_in_executor(self._thread, self._find, ends)
        if uid is None or uid == OVERFLOW_UID:
            return "unknown"
        return "same" if uid in {self.own, ROOT} else "other"

    def name_owner(self) -> str:
        """Return name and uid of the server's user, for messages."""
        try:
            return f"{pwd.getpwuid(self.own).pw_name} (uid {self.own})"
        except KeyError:
            return f"uid {self.own}"

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class Peer:
    """The client of one connection. A new connection from the same address and port gets a new one."""

    def __init__(self, users: Users | None = None, ends: Ends | None = None) -> None:
        self._users = users
        self._ends = ends
        self._owner: Owner | None = None
        self.proven = False
        """Whether the request in progress was authorized by the token."""
        self.is_streaming = False
        """Whether the connection counts as a stream without the token."""

    async def find_owner(self) -> Owner:
        """Look up the user once; a lookup that timed out is repeated at the next request."""
        if self._users is None or self._ends is None:
            return "unknown"
        if self._owner is None:
            try:
                self._owner = await self._users.find_owner(self._ends)
            except TimeoutError:
                return "unknown"
        return self._owner
