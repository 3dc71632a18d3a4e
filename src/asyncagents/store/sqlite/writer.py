"""Verbs that have queued up while a commit was under way are committed together.

Quick ones are worked on by the loop itself, which only leaves the wait for the disk to a thread: two threads
that take turns for each statement cost more than the statements. All others are the thread's alone.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from asyncagents.errors import Closed, StoreError
from asyncagents.store.sqlite.batch import Batches, Outcome, Worked
from asyncagents.store.sqlite.checkpoint import Checkpoints
from asyncagents.store.tx import Commit, Verb

BATCH = 64
"""So many verbs hold the write lock for about ten milliseconds."""
QUICK_BATCH = 24
"""So many quick ones hold the loop up for a few."""

_log = logging.getLogger(__name__)

Report: TypeAlias = Callable[[Commit], None]


class Writer(Protocol):
    def submit(self, verb: Verb[Any], *, quick: bool = False) -> asyncio.Future[Any]: ...
    def poll(self) -> None:
        """Look for what other processes committed; it is reported like our own commits."""
        ...

    async def close(self) -> None: ...


class _Member:
    __slots__ = ("future", "quick", "verb")

    def __init__(self, verb: Verb[Any], future: asyncio.Future[Any], quick: bool) -> None:
        self.verb = verb
        self.future = future
        self.quick = quick


class _Job:
    """For the thread: verbs, and what was done of them; without any, a look at what others wrote."""

    __slots__ = ("members", "worked")

    def __init__(self, members: list[_Member], worked: Worked | None = None) -> None:
        self.members = members
        self.worked = worked


class ThreadWriter:
    """The loop and the thread use the connection in turn: there is one job at a time, or none."""

    def __init__(self, batches: Batches, report: Report) -> None:
        self._batches = batches
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._waiting: deque[_Member] = deque()
        self._at_work = False
        self._called = False
        self._polling = False
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopped = asyncio.Event()
        self._checkpoints = Checkpoints(batches.connect_again)
        self._thread = threading.Thread(target=self._work, name="asyncagents-writer", daemon=True)
        self._thread.start()

    def submit(self, verb: Verb[Any], *, quick: bool = False) -> asyncio.Future[Any]:
        if self._closed:
            raise Closed("the store is closed")
        future = self._loop.create_future()
        self._waiting.append(_Member(verb, future, quick))
        self._call()
        return future

    def poll(self) -> None:
        if not self._closed:
            self._polling = True
            self._call()

    def _call(self) -> None:
        """Once a turn of the loop: what came together is committed together."""
        self._idle.clear()
        if not self._called and not self._at_work:
            self._called = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._called = False
        if self._waiting and self._waiting[0].quick:
            self._begin(self._take_quick())
        elif self._waiting:
            self._hand_over(_Job([self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]))
        elif self._polling:
            self._polling = False
            self._hand_over(_Job([]))
        else:
            self._idle.set()

    def _take_quick(self) -> list[_Member]:
        """Those that come before the first that is not."""
        members: list[_Member] = []
        while self._waiting and self._waiting[0].quick and len(members) < QUICK_BATCH:
            members.append(self._waiting.popleft())
        return members

    def _begin(self, members: list[_Member]) -> None:
        self._hand_over(_Job(members, self._batches.work([member.verb for member in members])))

    def _hand_over(self, job: _Job) -> None:
        self._at_work = True
        self._queue.put(job)

    async def close(self) -> None:
        """What was submitted before is still committed."""
        self._closed = True
        await self._idle.wait()
        self._queue.put(None)
        await self._stopped.wait()
        self._thread.join()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            outcomes, report = self._commit(job) if job.members else ([], self._look())
            self._loop.call_soon_threadsafe(self._deliver, job.members, outcomes, report)
            self._checkpoints.committed(len(job.members))
        self._checkpoints.close()
        self._batches.close()
        self._loop.call_soon_threadsafe(self._stopped.set)

    def _commit(self, job: _Job) -> tuple[list[Outcome], Commit]:
        """The thread outlives whatever happens to the file: callers hear of it, later ones are tried."""
        verbs = [member.verb for member in job.members]
        try:
            if job.worked is not None:
                return self._batches.finish(verbs, job.worked)
            return self._batches.run(verbs)
        except Exception as error:  # noqa: BLE001  the edge of the thread
            failure = StoreError(f"the database is out of reach: {error}")
            return [Outcome(error=failure) for _ in verbs], Commit([], [], [], [])

    def _look(self) -> Commit:
        try:
            return self._batches.poll()
        except Exception:  # noqa: BLE001  the edge of the thread
            _log.exception("could not look for what other processes did; trying again")
            return Commit([], [], [], [])

    def _deliver(self, members: list[_Member], outcomes: list[Outcome], report: Commit) -> None:
        """Whoever hears of it may have more to write: that comes with the next."""
        self._at_work = False
        try:
            self._report(report)
        finally:
            for member, outcome in zip(members, outcomes, strict=True):
                resolve(member.future, outcome)
            self._call()


def resolve(future: asyncio.Future[Any], outcome: Outcome) -> None:
    """The caller may have gone away; what it asked for is done all the same."""
    if future.done():
        return
    if outcome.error is not None:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.value)
