"""One claim of a session, in this process: what it holds, and how it is poked, interrupted and stopped."""

import asyncio

from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.prompt import Prompt


class Run:
    def __init__(self, session_id: SessionId) -> None:
        self.session_id = session_id
        self.lease: Lease | None = None
        self.prompt = Prompt()
        self.tasks: dict[CallId, asyncio.Task[None]] = {}
        self.failure: Exception | None = None
        self._poked = asyncio.Event()
        self._stream: asyncio.Timeout | None = None
        self._interrupted = False

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

    async def wait(self) -> None:
        await self._poked.wait()
        self._poked.clear()
        if self.failure is not None:
            raise self.failure

    def clear(self) -> None:
        """Just before the run offers to end: whoever pokes from here on wants a new one."""
        self._poked.clear()

    def interrupt(self) -> None:
        """A cancel came: end the stream and the tools; the rows say why."""
        self._interrupted = True
        if self._stream is not None:
            self._stream.reschedule(asyncio.get_running_loop().time())
        for task in self.tasks.values():
            task.cancel()
        self.poke()

    def streaming(self) -> asyncio.Timeout:
        """A scope that `interrupt` ends with a `TimeoutError`."""
        loop = asyncio.get_running_loop()
        self._stream = asyncio.timeout_at(loop.time() if self._interrupted else None)
        return self._stream

    def resumed(self, snapshot: Snapshot) -> None:
        """The turn that was interrupted is over."""
        self._stream = None
        if not snapshot.cancelled:
            self._interrupted = False
