"""What a process and its children have used, as the kernel counts it."""

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError)


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(pid: int) -> list[int]:
    """It, and all that it started."""
    children: dict[int, list[int]] = defaultdict(list)
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(*_GONE):
                children[int(_stat(int(process.name))[1])].append(int(process.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found


def cpu_seconds(pid: int) -> float:
    """Of its own, of its children that live, and of those it waited for."""
    total = 0
    for each in tree(pid):
        with suppress(*_GONE):
            total += sum(int(field) for field in _stat(each)[11:15])
    return total / _TICKS


def memory_mb(pid: int, *, peak: bool = False) -> float:
    """Resident now, or at most since `forget_peak`."""
    name, total = "VmHWM:" if peak else "VmRSS:", 0
    for each in tree(pid):
        with suppress(*_GONE):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(name))
    return total / 1024


def forget_peak(pid: int) -> None:
    for each in tree(pid):
        with suppress(*_GONE, PermissionError):
            Path(f"/proc/{each}/clear_refs").write_text("5")
