"""Pieces of work in several processes: results in order, and no process that outlives them."""

import os
import subprocess
import sys

import pytest

from asyncagents.tools.search.parallel import MOST_WORKERS, default_workers, work_in_order

pytestmark = pytest.mark.slow

# In a process of its own: one with a single thread.
SCRIPT = """
import os, signal, sys
from contextlib import closing
from asyncagents.tools.search.parallel import work_in_order

def work(piece):
    if piece == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    return b"%d of %d" % (piece, os.getpid()) + b"x" * 100_000

with closing(work_in_order(range(20), work, 3)) as results:
    for number, result in enumerate(results):
        print(result.rstrip(b"x").decode())
        if number == LAST:
            break
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none left")
"""


def run(*, last: int = 99, dies: int = 99) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.replace("LAST", str(last)).replace("DIES", str(dies))
    return subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=False)


def test_results_come_in_the_order_of_the_pieces() -> None:
    *lines, end = run().stdout.splitlines()
    assert [line.split()[0] for line in lines] == [str(number) for number in range(20)]
    assert len({line.split()[2] for line in lines}) == 3
    assert end == "none left"


def test_workers_end_when_enough_is_known() -> None:
    *lines, end = run(last=4).stdout.splitlines()
    assert len(lines) == 5
    assert end == "none left"


def test_a_worker_that_ends_too_early_is_an_error() -> None:
    done = run(dies=7)
    assert len(done.stdout.splitlines()) == 7
    assert "MemoryError: a worker of the search ended" in done.stderr


def test_a_single_worker_runs_in_this_process() -> None:
    assert list(work_in_order(range(3), lambda piece: b"%d %d" % (piece, os.getpid()), 1)) == [
        b"%d %d" % (piece, os.getpid()) for piece in range(3)
    ]
    assert list(work_in_order((), lambda piece: b"", 8)) == []
    assert 1 <= default_workers() <= MOST_WORKERS
