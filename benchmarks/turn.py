"""What a trivial turn costs: many sessions at once, an instant model, real durable SQLite."""

import asyncio
import time
from pathlib import Path

from asyncagents import Runtime, ScriptedModel, open_runtime
from benchmarks.report import Figure

SESSIONS = 200
ROUNDS = 10


async def _round(runtime: Runtime, sessions: list[str]) -> tuple[float, float]:
    """CPU and wall time of one prompt to every session at once."""
    cpu, wall = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for session_id in sessions:
            group.create_task(runtime.prompt(session_id, "hi"))  # type: ignore[arg-type]
    return time.process_time() - cpu, time.perf_counter() - wall


async def _sessions(runtime: Runtime) -> list[str]:
    return [(await runtime.create_session(directory="/project")).id for _ in range(SESSIONS)]


async def measure(directory: Path) -> list[Figure]:
    model = ScriptedModel({}, remember=False)
    async with open_runtime(directory, model=model) as runtime:
        rounds = [await _round(runtime, await _sessions(runtime)) for _ in range(ROUNDS)]
    best_cpu = sorted(cpu for cpu, _ in rounds)[ROUNDS // 2] / SESSIONS
    wall = sorted(wall for _, wall in rounds)[ROUNDS // 2]
    return [
        Figure("CPU of a trivial turn, 200 sessions at once (median round)", best_cpu * 1e3, "ms", "≤ 1"),
        Figure("turns a second, same run", SESSIONS / wall, "1/s"),
    ]
