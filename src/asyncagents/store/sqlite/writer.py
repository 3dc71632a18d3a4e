"""Commits together the verbs that were queued while the last commit was in progress.

Quick verbs run on the event loop, and a thread only waits for the disk: two threads that take turns for each
statement cost more than the statements. All other verbs run in the thread.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from asyncagents.errors import Closed, StoreError
from asyncagents.store.sqlite.checkpoint import Checkpointer
from asyncagents.store.sqlite.group_commit import GroupCommit, UncommittedBatch, VerbOutcome
from asyncagents.store.tx import Commit, Verb

BATCH = 64
"""Max verbs of a batch: they hold the write lock for about ten milliseconds."""
QUICK_BATCH = 24
"""Max inline verbs of a batch: they block the event loop for a few milliseconds."""

_log = logging.getLogger(__name__)

Report: TypeAlias = Callable[[Commit], None]


class VerbWriter(Protocol):
    def submit(self, verb: Verb[Any], *, inline: bool = False) -> asyncio.Future[Any]: ...
    def poll(self) -> None:
        """Read what other processes committed; it is reported like our own commits."""
        ...

    async def close(self) -> None: ...


class _QueuedVerb:
    __slots__ = ("future", "inline", "verb")

    def __init__(self, verb: Verb[Any], future: asyncio.Future[Any], inline: bool) -> None:
        self.verb = verb
        self.future = future
        self.inline = inline


class _WorkItem:
    """Work for the thread: verbs, with their batch if it has begun; without verbs, a poll."""

    __slots__ = ("members", "worked")

    def __init__(self, members: list[_QueuedVerb], batch: UncommittedBatch | None = None) -> None:
        self.members = members
        self.worked = batch


class ThreadWriter:
    """The event loop and the thread take turns with the connection: there is at most one work item."""

    def __init__(self, group_commit: GroupCommit, report: Report) -> None:
        self._batches = group_commit
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_WorkItem | None] = SimpleQueue()
        self._waiting: deque[_QueuedVerb] = deque()
        self._at_work = False
        self._called = False
        self._polling = False
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopped = asyncio.Event()
        self._checkpoints = Checkpointer(group_commit.open_connection)
        self._thread = threading.Thread(target=self._work, name="asyncagents-writer", daemon=True)
        self._thread.start()

    def submit(self, verb: Verb[Any], *, inline: bool = False) -> asyncio.Future[Any]:
        if self._closed:
            raise Closed("the store is closed")
        future = self._loop.create_future()
        self._waiting.append(_QueuedVerb(verb, future, inline))
        self._schedule_next()
        return future

    def poll(self) -> None:
        if not self._closed:
            self._polling = True
            self._schedule_next()

    def _schedule_next(self) -> None:
        """Schedule the next batch, once per iteration of the event loop, so that verbs are batched."""
        self._idle.clear()
        if not self._called and not self._at_work:
            self._called = True
            self._loop.call_soon(self._start_next)

    def _start_next(self) -> None:
        self._called = False
        if self._waiting and self._waiting[0].inline:
            self._begin(self._take_quick())
        elif self._waiting:
            self._pass_to_thread(
                _WorkItem([self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))])
            )
        elif self._polling:
            self._polling = False
            self._pass_to_thread(_WorkItem([]))
        else:
            self._idle.set()

    def _take_quick(self) -> list[_QueuedVerb]:
        """Take the inline verbs before the first that is not inline."""
        members: list[_QueuedVerb] = []
        while self._waiting and self._waiting[0].inline and len(members) < QUICK_BATCH:
            members.append(self._waiting.popleft())
        return members

    def _begin(self, members: list[_QueuedVerb]) -> None:
        self._pass_to_thread(_WorkItem(members, self._batches.begin([member.verb for member in members])))

    def _pass_to_thread(self, job: _WorkItem) -> None:
        self._at_work = True
        self._queue.put(job)

    async def close(self) -> None:
        """Commit what was submitted before, then stop."""
        self._closed = True
        await self._idle.wait()
        self._queue.put(None)
        await self._stopped.wait()
        self._thread.join()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            outcomes, commit_report = self._commit(job) if job.members else ([], self._poll_commits())
            self._loop.call_soon_threadsafe(self._deliver, job.members, outcomes, commit_report)
            self._checkpoints.count_verbs(len(job.members))
        self._checkpoints.close()
        self._batches.close()
        self._loop.call_soon_threadsafe(self._stopped.set)

    def _commit(self, job: _WorkItem) -> tuple[list[VerbOutcome], Commit]:
        """Commit a batch; any error goes to its callers, and the thread goes on with the next."""
        verbs = [member.verb for member in job.members]
        try:
            if job.worked is not None:
                return self._batches.finish(verbs, job.worked)
            return self._batches.run(verbs)
        except Exception as error:  # noqa: BLE001  the edge of the thread
            failure = StoreError(f"the database is out of reach: {error}")
            return [VerbOutcome(error=failure) for _ in verbs], Commit([], [], [], [])

    def _poll_commits(self) -> Commit:
        try:
            return self._batches.poll()
        except Exception:  # noqa: BLE001  the edge of the thread
            _log.exception("database action=poll: reading commits of other processes failed; will retry")
            return Commit([], [], [], [])

    def _deliver(
        self, members: list[_QueuedVerb], outcomes: list[VerbOutcome], commit_report: Commit
    ) -> None:
        """Report the commit and resolve the futures; what listeners submit then is in the next batch."""
        self._at_work = False
        try:
            self._report(commit_report)
        finally:
            for member, outcome in zip(members, outcomes, strict=True):
                resolve_future(member.future, outcome)
            self._schedule_next()


def resolve_future(future: asyncio.Future[Any], outcome: VerbOutcome) -> None:
    """Set the outcome of a future, unless its caller was cancelled; the write is done all the same."""
    if future.done():
        return
    if outcome.error is not None:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.value)
