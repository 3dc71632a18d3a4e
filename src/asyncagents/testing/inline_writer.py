"""The store's writer for simulations: the same batches, run on the loop at seeded times."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from asyncagents.domain.clock import Rng
from asyncagents.errors import Closed
from asyncagents.store.sqlite.group_commit import GroupCommit, VerbOutcome
from asyncagents.store.sqlite.writer import Report, resolve_future
from asyncagents.store.tx import Commit, Verb
from asyncagents.testing.fault import Crash

MAX_BATCH = 6
MAX_DELAY_MS = 40


class InlineWriter:
    """Commits a batch at one time and reports it at a later one; a crash may come in between."""

    def __init__(
        self,
        group_commit: GroupCommit,
        report: Report,
        *,
        rng: Rng,
        died: Callable[[], None],
        max_batch: int = MAX_BATCH,
    ) -> None:
        self._max_batch = max_batch
        self._batches = group_commit
        self._report = report
        self._rng = rng
        self._on_crash = died
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Verb[Any], asyncio.Future[Any]]] = deque()
        self._done: deque[tuple[list[asyncio.Future[Any]], list[VerbOutcome], Commit]] = deque()
        self._ticking = False
        self.dead = False

    def submit(self, verb: Verb[Any], *, inline: bool = False) -> asyncio.Future[Any]:
        if self.dead:
            raise Closed("the process is dead")
        future = self._loop.create_future()
        self._queue.append((verb, future))
        self._tick_soon()
        return future

    def poll(self) -> None:
        if not self.dead:
            self._done.append(([], [], self._batches.poll()))
            self._call_later(self._deliver)

    async def close(self) -> None:
        """Finish what was submitted, unless the process is dead."""
        while not self.dead and (self._queue or self._done):  # noqa: ASYNC110  time is virtual
            await asyncio.sleep(MAX_DELAY_MS / 1000)
        self.dead = True
        self._batches.close()

    def die(self) -> None:
        self.dead = True
        self._batches.close()

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._call_later(self._tick)

    def _call_later(self, callback: Callable[[], None]) -> None:
        self._loop.call_later(self._rng.below(MAX_DELAY_MS) / 1000, callback)

    def _tick(self) -> None:
        self._ticking = False
        if self.dead:
            return
        size = min(len(self._queue), 1 + self._rng.below(self._max_batch))
        batch = [self._queue.popleft() for _ in range(size)]
        try:
            outcomes, commit_report = self._commit_batch([verb for verb, _ in batch])
        except Crash:
            self._on_crash()
            return
        self._done.append(([future for _, future in batch], outcomes, commit_report))
        self._call_later(self._deliver)
        if self._queue:
            self._tick_soon()

    def _commit_batch(self, verbs: list[Verb[Any]]) -> tuple[list[VerbOutcome], Commit]:
        """Commit as the real writer does: `begin` and `finish`, or `run` where that is not possible."""
        batch = self._batches.begin(verbs)
        return self._batches.run(verbs) if batch is None else self._batches.finish(verbs, batch)

    def _deliver(self) -> None:
        if self.dead:
            return
        futures, outcomes, commit_report = self._done.popleft()
        try:
            self._report(commit_report)
        finally:
            for future, outcome in zip(futures, outcomes, strict=True):
                resolve_future(future, outcome)
