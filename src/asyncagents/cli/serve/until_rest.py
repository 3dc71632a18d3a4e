"""Decides when `asyncagents serve --until-rest` ends: no session works, and no client is there."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from asyncagents.domain.task.view import iso_time
from asyncagents.engine.runtime.rest_check import Remainder
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import StoreError
from asyncagents.server.discovery import Listing, remove_listing, write_listing

REST_SECONDS = 300.0
LOOK_SECONDS = 5.0
"""The longest pause between two looks."""
GRACE_SECONDS = 1.0
"""How long a server without a listing still answers clients that have just read it."""

_log = logging.getLogger(__name__)


class RestWatch:
    """Watches a runtime and the clients of its server."""

    def __init__(self, runtime: Runtime, seconds: float, stop: asyncio.Event) -> None:
        """`seconds`: how long rest must last. `stop` ends every wait."""
        self._runtime = runtime
        self._seconds = seconds
        self._stop = stop
        self._known_requests = 0

    async def wait_for_rest(self) -> bool:
        """Wait until rest has lasted long enough; return False if stopped before."""
        now = asyncio.get_running_loop().time
        began = now()
        while now() - began < self._seconds:
            if not await self.stays_at_rest(min(LOOK_SECONDS, self._seconds / 10)):
                began = now()
            if self._stop.is_set():
                return False
        return True

    async def wait_and_withdraw(self, data: Path, listing: Listing) -> None:
        """Wait for rest and remove the listing; put it back if a client that had read it comes yet."""
        while await self.wait_for_rest():
            remove_listing(data)
            if await self.stays_at_rest(min(GRACE_SECONDS, self._seconds)):
                return
            write_listing(data, listing)

    async def stays_at_rest(self, seconds: float) -> bool:
        """Wait for `seconds`; return whether it is at rest then and no client came meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return not self._stop.is_set() and await self.is_at_rest()

    async def is_at_rest(self) -> bool:
        """Return whether no client was there since the last look, and no session has anything to do."""
        counters = self._runtime.counters
        came = counters.client_requests != self._known_requests
        self._known_requests = counters.client_requests
        if came or counters.open_requests or counters.streams:
            return False
        try:
            return not await self._runtime.rest_check.has_work()
        except StoreError:
            _log.exception("action=check_rest the store fails; without it there is no work")
            return True


AT_REST = "ending: all sessions rest or wait, and no client is there"


async def print_remainder(runtime: Runtime, data: Path, *, why: str = AT_REST) -> None:
    """Print to stderr why the process ends, what stays, and what goes on with it."""
    click.echo(why, err=True)
    with suppress(StoreError):  # the log says why
        lines = ["sessions are at work: `asyncagents sessions --all`"] * await runtime.rest_check.has_work()
        lines += describe_remainder(await runtime.rest_check.remainder())
        for line in lines:
            click.echo(line, err=True)
        if lines:
            click.echo(
                f"`asyncagents serve --data-dir {data}` goes on with this, or the next client", err=True
            )


def describe_remainder(left: Remainder) -> Iterator[str]:
    """Describe what stays when a server ends at rest, and the commands that show it."""
    if left.asks:
        yield f"{_count(left.asks, 'ask')} for an answer: `asyncagents asks --all`"
    if left.pending:
        yield f"{_count(left.pending, 'pending call')} for a result: `asyncagents pending`"
    if left.stuck:
        yield f"{_count(left.stuck, 'session')} for a model, or cannot be read: `asyncagents why ID`"
    if left.next_due is not None:
        yield f"a deadline passes at {iso_time(left.next_due)}; it takes effect when the next server runs"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} waits" if number == 1 else f"{number} {noun}s wait"
