"""A seeded asyncio event loop with virtual time: one seed is one interleaving, replayed exactly."""

import asyncio
import functools
import gc
import hashlib
import heapq
import itertools
import random
import re
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from asyncagents.testing.simtask import SimFuture, SimTask, label, qualname

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Loop = TypeVar("Loop", bound=type[asyncio.BaseEventLoop])

MAX_STEPS = 1_000_000
_FLUSH = 4096
_OUTSIDE = re.compile(
    r"(add|remove|sock|connect|subprocess)_|create_(?!task|future)|sendfile|start_tls|get(addr|name)info"
)


class SimulationError(Exception):
    """The simulated program did something that a simulation does not support."""


class Deadlock(SimulationError):
    """Nothing is ready and no timer is set: the pending tasks never finish."""


class Livelock(SimulationError):
    """The program was still busy after the allowed number of steps."""


def _refuse(name: str) -> Callable[..., None]:
    def raise_error(*args: object, **options: object) -> None:
        raise SimulationError(f"loop.{name}() reaches outside the simulation: inject a double instead")

    return raise_error


def _seal_loop(loop: Loop) -> Loop:
    """Replace every method of the loop that reaches outside the simulation by one that raises."""
    for name in filter(_OUTSIDE.match, dir(loop)):
        setattr(loop, name, _refuse(name))
    return loop


@_seal_loop
class SimLoop(asyncio.BaseEventLoop):
    """A loop that runs ready callbacks in seeded order; if none is ready, time jumps to the next timer.

    Everything runs in the calling thread. Work for an executor runs at one seeded step and its result is
    delivered at another. Objects that do not pass through the loop still depend on memory addresses: a set
    of coroutines (`as_completed` makes one: give it tasks), futures made without `create_future` (`gather`
    returns one), sets of the program's own objects.
    """

    _closed: bool
    _stopping: bool
    _thread_id: int | None
    _timer_cancelled_count: int

    def __init__(self, seed: int, *, max_steps: int = MAX_STEPS, keep_trace: bool = False) -> None:
        super().__init__()
        self.steps = 0
        self._seed, self._random = seed, random.Random(seed)
        self._max_steps = self._last_step = max_steps
        self._now = 0.0
        self._numbers = itertools.count(1)
        self._ready: list[asyncio.Handle] = []
        self._scheduled: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._log: list[int | str] = []
        self._sha = hashlib.sha256()
        self._trace: list[str] | None = [] if keep_trace else None
        self._generators: weakref.WeakValueDictionary[int, AsyncGenerator[Any, Any]]
        self._generators = weakref.WeakValueDictionary()
        self.set_task_factory(self._make_task)

    # Running

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `main`, then cancel remaining tasks, close the generators and the loop."""
        with _without_gc():
            try:
                result = self.run_until_complete(main())
            except BaseException as error:
                error.add_note(f"simulation seed {self._seed}, virtual time {self._now:.3f} s")
                with suppress(SimulationError):
                    self._wind_down()
                raise
            else:
                self._wind_down()
                return result
            finally:
                self.close()

    def _wind_down(self) -> None:
        self._last_step = self.steps + self._max_steps
        while tasks := self._pending():
            for task in tasks:
                task.cancel()
            self.run_until_complete(asyncio.wait(tasks))
        self.run_until_complete(self.shutdown_asyncgens())

    def _run_once(self) -> None:
        ready, log, pick = self._ready, self._log, self._random.random
        while not self._stopping:
            if not ready:
                self._jump()
            place = int(pick() * len(ready))
            handle = ready[place]
            ready[place] = ready[-1]
            ready.pop()
            if handle._cancelled:
                continue
            callback = handle._callback  # type: ignore[attr-defined]
            owner = getattr(callback, "__self__", None)
            log.append(owner.number if type(owner) is SimTask else label(callback, handle._args))
            if len(log) >= _FLUSH:
                self._flush()
            if self.steps >= self._last_step:
                raise Livelock(f"still busy after {self._max_steps} steps; {self._report()}")
            self.steps += 1
            handle._run()

    def _jump(self) -> None:
        """Move time to the next timer and make every timer of that moment ready."""
        timers = self._scheduled
        while timers and timers[0][2]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing is ready and no timer is set; {self._report()}")
        self._now = timers[0][0]
        self._log.append(f"@{self._now!r}")
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(timer)

    # Trace

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self._log.append(f"note {text!r}")

    def trace_digest(self) -> str:
        """Return a hash of the trace so far: virtual times, callbacks and notes."""
        self._flush()
        return self._sha.hexdigest()

    def trace_lines(self) -> list[str]:
        """Return the trace as text, to find where two runs diverge; needs `keep_trace=True`."""
        if self._trace is None:
            raise SimulationError("the trace was not kept: make the loop with keep_trace=True")
        self._flush()
        return self._trace

    def _flush(self) -> None:
        lines = [f"{entry}\n" for entry in self._log]
        self._log.clear()
        self._sha.update("".join(lines).encode())
        if self._trace is not None:
            self._trace += lines

    def _pending(self) -> list[SimTask[Any]]:
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        return sorted(tasks, key=lambda task: task.number)

    def _report(self) -> str:
        tasks = "".join(f"\n  {task.get_name()} {task.where()}" for task in self._pending())
        return f"seed {self._seed}, virtual time {self._now:.3f} s, pending tasks:{tasks or ' none'}"

    # The interface of asyncio loops

    def time(self) -> float:
        return self._now

    def create_future(self) -> SimFuture[Any]:
        future: SimFuture[Any] = SimFuture(loop=self)
        future.number = next(self._numbers)
        return future

    def _make_task(self, loop: Any, coro: Any, **options: Any) -> SimTask[Any]:
        number = next(self._numbers)
        options["name"] = options.get("name") or f"task-{number}"
        self._log.append(f"task {number} {qualname(coro)}")
        return SimTask(coro, number, loop=loop, **options)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if when > self._now:
            heapq.heappush(self._scheduled, (when, next(self._numbers), timer))
            timer._scheduled = True  # type: ignore[attr-defined]
        else:
            self._ready.append(timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined]
            self._timer_cancelled_count += 1
        if self._timer_cancelled_count * 2 > len(self._scheduled) > 100:
            self._scheduled = [entry for entry in self._scheduled if not entry[2]._cancelled]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._thread_id not in {None, threading.get_ident()}:
            raise SimulationError("another thread called into the simulation: use to_thread instead")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> SimFuture[T]:
        done: SimFuture[T] = self.create_future()
        self.call_soon(self._work, done, functools.partial(func, *args))
        return done

    def _work(self, done: SimFuture[T], func: Callable[[], T]) -> None:
        if done.cancelled():
            return
        asyncio._set_running_loop(None)  # as in another thread
        try:
            result = func()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  as executors do: the awaiting task gets it
            self.call_soon(_deliver, done, done.set_exception, error)
        else:
            self.call_soon(_deliver, done, done.set_result, result)
        finally:
            asyncio._set_running_loop(self)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there are no threads."""

    def _asyncgen_firstiter_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[next(self._numbers)] = generator

    async def shutdown_asyncgens(self) -> None:
        """Close the open async generators, the youngest first."""
        for generator in reversed(list(self._generators.values())):
            await generator.aclose()


def simulate(main: Callable[[], Coroutine[Any, Any, T]], *, seed: int, max_steps: int = MAX_STEPS) -> T:
    """Run `main` on a new `SimLoop` and close everything; the seed is noted on any exception."""
    return SimLoop(seed, max_steps=max_steps).run(main)


def _deliver(done: SimFuture[T], settle: Callable[[Any], None], outcome: object) -> None:
    if not done.cancelled():
        settle(outcome)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Disable garbage collection: the times of finalisers would depend on what the process did before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
