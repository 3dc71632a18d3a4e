"""Threads for blocking work of one project: few at once, and the process does not wait for them to exit."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from threading import Condition, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_THREADS = 4
STUCK_SECONDS = 1.0
"""If no work ends for so long, another thread starts for the waiting work."""
IDLE_SECONDS = 10.0
"""After so long without work a thread ends."""


class Threads(Executor):
    """An executor for one project, so that work that hangs does not delay other projects.

    Normally one thread works, since threads that compute slow down the event loop; if it hangs, others start,
    up to `most`. They are daemons: `ThreadPoolExecutor` joins its threads when the interpreter exits, so one
    that hangs would keep the process alive.
    """

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._condition = Condition()
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._alive = self._idle = self._done = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Wait for the result of `work`; a cancel drops work that has not begun."""
        call = partial(copy_context().run, partial(work, *args, **kwargs))
        future, done = asyncio.get_running_loop().run_in_executor(self, call), self._done
        try:
            while not (await asyncio.wait({future}, timeout=STUCK_SECONDS))[0]:
                if self._done == done:
                    self._add_thread()
                done = self._done
        except asyncio.CancelledError:
            future.cancel()
            raise
        return future.result()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._condition:
            self._queue.append((future, partial(fn, *args, **kwargs)))
            self._condition.notify_all()
            if not self._alive:
                self._start_thread()
        return future

    def _add_thread(self) -> None:
        """Start one more thread if work waits."""
        with self._condition:
            if len(self._queue) > self._idle and self._alive < self._most:
                self._start_thread()

    async def wait_idle(self, seconds: float) -> bool:
        """Wait until no thread works; return False if one still does after `seconds`."""
        until = asyncio.get_running_loop().time() + seconds
        while self._alive > self._idle or self._queue:
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(0.01)
        return True

    def _start_thread(self) -> None:
        """Start a thread; if the system refuses, raise `RuntimeError` unless another thread runs."""
        try:
            Thread(target=self._work, name="asyncagents-files", daemon=True).start()
        except RuntimeError:
            if not self._alive:
                self._queue.pop()
                raise
            return
        self._alive += 1

    def _work(self) -> None:
        while (next_work := self._next_work()) is not None:
            future, work = next_work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  as in other executors: raised where awaited
                future.set_exception(error)
            self._done += 1
            del future, work, next_work  # an idle thread keeps no file's content alive

    def _next_work(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._condition:
            self._idle += 1
            found = self._condition.wait_for(lambda: self._queue, IDLE_SECONDS)
            self._idle -= 1
            if found:
                return self._queue.popleft()
            self._alive -= 1
            return None
