"""A DNS resolver that returns only checked addresses, so that a name cannot lead elsewhere afterwards."""

import socket
from collections.abc import Callable
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from asyncagents.tools.web.dns_lookup import Lookup

AllowAddress: TypeAlias = Callable[[str], bool]
"""Returns whether an IP address may be connected to."""


class NotPublic(Exception):
    """A host has no address, or one that is not allowed."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is not a public address")
        self.host = host


class CheckedResolver(AbstractResolver):
    """Resolves a host to its addresses; raises `NotPublic` unless all of them are allowed."""

    def __init__(self, look_up: Lookup, allowed: Callable[[str, str], bool]) -> None:
        """`allowed`: called with a host and one of its addresses."""
        self._look_up = look_up
        self._is_allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await self._look_up(host, port)
        if not addresses or not all(self._is_allowed(host, address) for address in addresses):
            raise NotPublic(host)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass
