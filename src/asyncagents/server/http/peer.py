"""The program at the other end of a connection: its user, and whether it has sent the token."""

import asyncio
import os
import pwd
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

from asyncagents.server.http.socket_owner import OVERFLOW_UID, SocketEnds, SocketOwners

ROOT = 0
SECONDS = 5.0
"""Timeout of one lookup."""

UserMatch: TypeAlias = Literal["same", "other", "unknown"]
"""`same`: the server's user or root. `other`: another user. `unknown`: the system does not tell."""


class UserLookup:
    """Looks up the users of connecting programs, one at a time, in a thread of its own."""

    def __init__(
        self, *, own: int | None = None, find: Callable[[SocketEnds], int | None] | None = None
    ) -> None:
        self.own_uid = os.geteuid() if own is None else own
        self._find = find or SocketOwners().find
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="peer")

    async def match_user(self, ends: SocketEnds) -> UserMatch:
        """Compare the user of a connection's client with the server's. Raises `TimeoutError`."""
        async with asyncio.timeout(SECONDS):
            uid = await asyncio.get_running_loop().run_in_executor(self._thread, self._find, ends)
        if uid is None or uid == OVERFLOW_UID:
            return "unknown"
        return "same" if uid in {self.own_uid, ROOT} else "other"

    def describe_own_user(self) -> str:
        """Return name and uid of the server's user, for messages."""
        try:
            return f"{pwd.getpwuid(self.own_uid).pw_name} (uid {self.own_uid})"
        except KeyError:
            return f"uid {self.own_uid}"

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class Peer:
    """The client of one connection. A new connection from the same address and port gets a new one."""

    def __init__(self, users: UserLookup | None = None, ends: SocketEnds | None = None) -> None:
        self._users = users
        self._ends = ends
        self._match: UserMatch | None = None
        self.has_token = False
        """Whether the request in progress was authorized by the token."""
        self.is_streaming = False
        """Whether the connection counts as a stream without the token."""

    async def match_user(self) -> UserMatch:
        """Look up the user once; a lookup that timed out is repeated at the next request."""
        if self._users is None or self._ends is None:
            return "unknown"
        if self._match is None:
            try:
                self._match = await self._users.match_user(self._ends)
            except TimeoutError:
                return "unknown"
        return self._match
