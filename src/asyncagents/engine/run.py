"""One claim of a session, in this process: what it holds, and how it is poked, interrupted and stopped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from asyncagents.domain.call import ABORTED, Call, Failed
from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.fact import Settle
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.text import whole_in
from asyncagents.engine.abort import AbortSignal
from asyncagents.engine.prompt import Prompt

PARKED = "parked"


class Footprint(Struct, frozen=True):
    """A step whose calls may be changing files."""

    message_id: MessageId
    before: str


class Run:
    def __init__(self, session_id: SessionId) -> None:
        self.session_id = session_id
        self.lease: Lease | None = None
        self.prompt = Prompt()
        self.overhead = 0
        """What the system text and the tools of its last step took, in tokens, as far as one can tell."""
        self.tasks: dict[CallId, asyncio.Task[None]] = {}
        self.aborts: dict[CallId, AbortSignal] = {}
        self.starting: set[CallId] = set()
        """Async tools that have not returned yet; the result of their work may be in before that."""
        self.footprint: Footprint | None = None
        """The step whose calls may be changing files."""
        self.footprint_known = False
        """Whether it was looked for what the run before began."""
        self.left_traces = False
        """A step has changed files, and the turn has not been summed up."""
        self.last_words: list[Settle] = []
        """Of what a person ran and ended: what it had printed is his to keep."""
        self.failure: Exception | None = None
        self.outcome = ""
        """How it ended: parked, or why it rests. Empty: it works, or was cut off."""
        self.interrupted = False
        self.interrupts = 0
        self._poked = asyncio.Event()
        self._scope: asyncio.Timeout | None = None

    @property
    def poked(self) -> bool:
        return self._poked.is_set()

    def poke(self) -> None:
        """Something happened: look again."""
        self._poked.set()

    def fail(self, error: Exception) -> None:
        """One of its calls could not write; the run ends with that."""
        self.failure = self.failure or error
        self.poke()

    async def wait(self, at_most: int | None = None) -> bool:
        """Until something happens, or (False) so many milliseconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if at_most is None else max(0, at_most) / 1000):
                await self._poked.wait()
        happened = self.poked
        self._poked.clear()
        if self.failure is not None:
            raise self.failure
        return happened

    async def hear_out(self, at_most: int) -> None:
        """Whoever starts work has a last word, though its result is in; not for ever."""
        if not await self.wait(at_most):
            self.starting.clear()

    def clear(self) -> None:
        """Just before the run offers to end: whoever pokes from here on wants a new one."""
        self._poked.clear()

    def interrupt(self) -> None:
        """A cancel came: end the stream and the tools; the rows say why."""
        self.interrupted = True
        self.interrupts += 1
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.reschedule(asyncio.get_running_loop().time())
        self.end_calls()
        self.poke()

    def hear_last(self, call: Call, said: dict[str, Any]) -> None:
        """Of a call that was told to end: what a person ran has printed something, perhaps."""
        if call.own:
            self.last_words.append(Settle(call.id, Failed(ABORTED, whole_in(said))))

    def end_calls(self) -> list[asyncio.Task[None]]:
        """Tell all that run to end."""
        for abort in self.aborts.values():
            abort.set()
        for task in self.tasks.values():
            task.cancel()
        return list(self.tasks.values())

    @asynccontextmanager
    async def interruptible(self) -> AsyncIterator[None]:
        """A scope that `interrupt` ends with a `TimeoutError`."""
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(now if self.interrupted else None) as scope:
            self._scope = None if self.interrupted else scope
            try:
                yield
            finally:
                self._scope = None

    def resumed(self, snapshot: Snapshot, interrupts: int) -> None:
        """The turn that was interrupted is over, if the snapshot is newer than the last of the interrupts."""
        if not snapshot.cancelled and interrupts == self.interrupts:
            self.interrupted = False


def told_to_stop() -> bool:
    """Whether this task was cancelled; without that, a `CancelledError` is somebody's failure."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
