"""Work on pieces in several forked processes; results come in the order of the pieces."""

import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from asyncagents.tools.search.low_priority import lower_priority

MOST_WORKERS = 4
_SIZE_BYTES = 8
T = TypeVar("T")


class _Worker(Struct, frozen=True):
    pid: int
    pipe: int


def default_workers() -> int:
    """Return the number of processors that this process may use, at most `MOST_WORKERS`."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # Linux only
        count = os.cpu_count() or 1
    return min(MOST_WORKERS, count)


def work_in_order(
    pieces: Sequence[T], work: Callable[[T], bytes], workers: int
) -> Generator[bytes, None, None]:
    """Yield the result of each piece; the workers end with the iterator.

    With more than one worker, this process must have one thread.
    Raises `MemoryError` if a worker ended before its work was done: mostly it ran out of memory.
    """
    count = min(workers, len(pieces))
    if count < 2:
        yield from map(work, pieces)
        return
    running = [_start_worker(pieces[number::count], work) for number in range(count)]
    try:
        for number in range(len(pieces)):
            yield _receive(running[number % count].pipe)
    finally:
        for each in running:
            os.close(each.pipe)
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
            os.waitpid(each.pid, 0)


def _start_worker(pieces: Sequence[T], work: Callable[[T], bytes]) -> _Worker:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return _Worker(pid, read)
    try:
        lower_priority()
        os.close(read)
        for piece in pieces:
            done = work(piece)
            _send(write, len(done).to_bytes(_SIZE_BYTES, "big") + done)
    finally:
        os._exit(0)  # unsent work makes the parent raise; no exit handler of the parent runs here


def _send(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


def _receive(pipe: int) -> bytes:
    return _read_exactly(pipe, int.from_bytes(_read_exactly(pipe, _SIZE_BYTES), "big"))


def _read_exactly(pipe: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size:
        piece = os.read(pipe, size)
        if not piece:
            raise MemoryError("a worker of the search ended before its work was done")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
