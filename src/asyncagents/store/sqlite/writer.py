"""One thread writes: it takes what has queued up while it was committing, and commits that together."""

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from asyncagents.errors import Closed, StoreError
from asyncagents.store.sqlite.batch import Batches, Outcome
from asyncagents.store.sqlite.checkpoint import Checkpoints
from asyncagents.store.tx import Commit, Verb

BATCH = 64
"""So many verbs hold the write lock for about ten milliseconds."""

_log = logging.getLogger(__name__)

Report: TypeAlias = Callable[[Commit], None]


class Writer(Protocol):
    def submit(self, verb: Verb[Any]) -> asyncio.Future[Any]: ...
    def poll(self) -> None:
        """Look for what other processes committed; it is reported like our own commits."""
        ...

    async def close(self) -> None: ...


class _Member:
    __slots__ = ("future", "verb")

    def __init__(self, verb: Verb[Any], future: asyncio.Future[Any]) -> None:
        self.verb = verb
        self.future = future


_POLL, _STOP = object(), object()


class ThreadWriter:
    def __init__(self, batches: Batches, report: Report) -> None:
        self._batches = batches
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._gathered: list[_Member] = []
        self._closed = False
        self._stopped = asyncio.Event()
        self._polling = False
        self._checkpoints = Checkpoints(batches.connect_again)
        self._thread = threading.Thread(target=self._work, name="asyncagents-writer", daemon=True)
        self._thread.start()

    def submit(self, verb: Verb[Any]) -> asyncio.Future[Any]:
        if self._closed:
            raise Closed("the store is closed")
        future = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(_Member(verb, future))
        return future

    def _hand_over(self) -> None:
        """Once a turn of the loop: what came together is committed together."""
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), BATCH):
            self._queue.put(gathered[start : start + BATCH])

    def poll(self) -> None:
        if not self._polling and not self._closed:
            self._polling = True
            self._queue.put(_POLL)

    async def close(self) -> None:
        """What was submitted before is still committed."""
        self._closed = True
        self._hand_over()
        self._queue.put(_STOP)
        await self._stopped.wait()
        self._thread.join()

    def _work(self) -> None:
        running = True
        while running:
            running = self._round()
        self._checkpoints.close()
        self._batches.close()
        self._loop.call_soon_threadsafe(self._stopped.set)

    def _round(self) -> bool:
        """Take what is there, up to a batch; a poll or a stop ends it."""
        members: list[_Member] = []
        signal = None
        while signal is None and (not members or (len(members) < BATCH and not self._queue.empty())):
            taken = self._queue.get()
            if isinstance(taken, list):
                members += taken
            else:
                signal = taken
        if members:
            outcomes, report = self._commit(members)
            self._loop.call_soon_threadsafe(self._deliver, members, outcomes, report)
            self._checkpoints.committed(len(members))
        if signal is _POLL:
            self._loop.call_soon_threadsafe(self._polled, self._look())
        return signal is not _STOP

    def _commit(self, members: list[_Member]) -> tuple[list[Outcome], Commit]:
        """The thread outlives whatever happens to the file: callers hear of it, later ones are tried."""
        try:
            return self._batches.run([member.verb for member in members])
        except Exception as error:  # noqa: BLE001  the edge of the thread
            failure = StoreError(f"the database is out of reach: {error}")
            return [Outcome(error=failure) for _ in members], Commit([], [], [], [])

    def _look(self) -> Commit:
        try:
            return self._batches.poll()
        except Exception:  # noqa: BLE001  the edge of the thread
            _log.exception("could not look for what other processes did; trying again")
            return Commit([], [], [], [])

    def _polled(self, report: Commit) -> None:
        self._polling = False
        self._report(report)

    def _deliver(self, members: list[_Member], outcomes: list[Outcome], report: Commit) -> None:
        try:
            self._report(report)
        finally:
            for member, outcome in zip(members, outcomes, strict=True):
                resolve(member.future, outcome)


def resolve(future: asyncio.Future[Any], outcome: Outcome) -> None:
    """The caller may have gone away; what it asked for is done all the same."""
    if future.done():
        return
    if outcome.error is not None:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.value)
