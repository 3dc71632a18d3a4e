"""Which tests a run plays, and in which order."""

import zlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
LONGEST_FIRST = ("peer", "e2e", "simulation", "recorded", "docs", "flows", "contract", "golden", "unit")
"""Folders of tests: those whose modules take longest come first, so that no process ends with one of them."""
PARTS = 4
FOREIGN = "tests/peer/"


def is_played(node_id: str, soak: str) -> bool:
    """Decide whether a test with the marker `soak` is played.

    `soak` is "" (none of them), "all", or the hash of a commit: then a quarter of them, another one for
    another commit. Kills and fan-outs of foreign programs take minutes: a hash plays none of them.
    """
    if soak in ("", "all") or node_id.startswith(FOREIGN):
        return soak == "all"
    return (zlib.crc32(node_id.encode()) + int(soak[:8], 16)) % PARTS == 0


def deal(modules: Sequence[tuple[str, Sequence[T]]], processes: int) -> list[T]:
    """Order tests so that each process begins with long modules.

    pytest-xdist gives each process one stretch of the list, all of one length, and lets a process without
    work take from the end of another's stretch. `modules` are paths with their tests, in any order.
    """
    ranked = sorted(modules, key=lambda module: _rank(module[0]))
    size = sum(len(tests) for _, tests in ranked)
    room = [(size + number) // processes for number in range(processes)]
    stretches: list[list[T]] = [[] for _ in range(processes)]
    for number, (_, tests) in enumerate(ranked):
        left = list(tests)
        for turn in range(processes):
            mine = (number + turn) % processes
            free = room[mine] - len(stretches[mine])
            stretches[mine] += left[:free]
            left = left[free:]
    return [test for stretch in stretches for test in stretch]


def _rank(path: str) -> int:
    folder = path.split("/")[1] if "/" in path else ""
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)
