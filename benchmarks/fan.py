"""Many sessions at once on a provider that takes two seconds; run as a process of its own, for its memory."""

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from asyncagents import open_runtime
from benchmarks.provider import MODEL, local_provider
from benchmarks.report import Figure

SESSIONS = 500
DELAY = 2.0
PROMPT = f'go [[{{"delay": {DELAY}}}]]'


async def _fan(directory: Path) -> tuple[float, float, float]:
    """Wall, CPU, and peak memory in MB."""
    with local_provider(directory) as config:
        async with open_runtime(directory, model=MODEL, config=config) as runtime:
            sessions = [await runtime.create_session(directory="/project") for _ in range(SESSIONS)]
            wall, cpu = time.perf_counter(), time.process_time()
            answers = await asyncio.gather(*(runtime.prompt(session.id, PROMPT) for session in sessions))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert all(answer.text == "ok" for answer in answers)
    return wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure() -> list[Figure]:
    done = subprocess.run([sys.executable, "-m", "benchmarks.fan"], capture_output=True, check=True)
    wall, cpu, peak = msgspec.json.decode(done.stdout, type=tuple[float, float, float])
    return [
        Figure("500 sessions at once, a 2 s answer over HTTP: wall", wall, "s", "≤ 3"),
        Figure("… over the 2 s, a session", (wall - DELAY) / SESSIONS * 1e3, "ms"),
        Figure("… CPU, a session", cpu / SESSIONS * 1e3, "ms"),
        Figure("… peak memory of the process", peak, "MB"),
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bench-fan") as place:
        print(msgspec.json.encode(asyncio.run(_fan(Path(place)))).decode())
