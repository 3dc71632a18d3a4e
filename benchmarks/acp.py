"""What the Agent Client Protocol costs: the start of an editor's agent, an external agent, a chunk of text.

`python -m benchmarks.acp` measures this alone.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from msgspec import Struct

from benchmarks.acp_stage import (
    HANG,
    STREAM,
    AcpStage,
    cpu_seconds,
    reply_prompt,
    resident_memory,
)
from benchmarks.provider import serve_local_provider
from benchmarks.report import Figure, table
from tests.support.acp.client import ProcessClient

ROUNDS = 5
FEW, MANY = 10, 40
"""External agents that run at once."""
STREAMS = 10
CHUNKS = 1_000
GAP = 0.005
WORD = "word "


class Start(Struct, frozen=True):
    """Seconds since the start of `asyncagents acp`."""

    first_frame: float
    session: float


class Memory(Struct, frozen=True):
    """Megabytes for each external agent."""

    few: float
    many: float


async def _start(stage: AcpStage) -> Start:
    began = time.perf_counter()
    async with stage.open_editor() as editor:
        await editor.initialize()
        first_frame = time.perf_counter() - began
        await editor.new_session(stage.project)
        return Start(first_frame, time.perf_counter() - began)


async def _start_cold_and_warm(stage: AcpStage) -> tuple[Start, Start]:
    """Start without a server, then with the one that the first start has left."""
    cold = await _start(stage)
    try:
        return cold, await _start(stage)
    finally:
        await stage.stop_server()


def _start_python() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


async def _weigh_agents(stage: AcpStage) -> Memory:
    """Weigh the server while external agents are idle in their prompts; the first loads what all share."""
    stage.direct_agent("", chunks=0, gap=0)
    async with stage.serve() as server:
        await server.launch(1, HANG)
        one = resident_memory(server.pid)
        await server.launch(FEW - 1, HANG)
        few = resident_memory(server.pid)
        await server.launch(MANY - FEW, HANG)
        many = resident_memory(server.pid)
    return Memory((few - one) / (FEW - 1), (many - one) / (MANY - 1))


async def _record_chunks(stage: AcpStage) -> float:
    """Return the CPU seconds of the server for a chunk that it records, beyond those of an empty prompt."""
    async with stage.serve() as server:
        spent = []
        for chunks in (0, 0, CHUNKS):  # the first one loads what all share
            stage.direct_agent(WORD * chunks, chunks=chunks, gap=GAP)
            before = cpu_seconds(server.pid)
            await server.launch(STREAMS, STREAM)
            spent.append(cpu_seconds(server.pid) - before)
    return (spent[2] - spent[1]) / (STREAMS * CHUNKS)


async def _forward_chunks(stage: AcpStage) -> float:
    """Return the CPU seconds of `asyncagents acp` for a chunk of our own agent that it forwards."""
    async with stage.serve(), stage.open_editor() as editor:
        await editor.initialize()
        sessions = [await editor.new_session(stage.project) for _ in range(STREAMS)]
        await _prompt_all(editor, sessions, chunks=1)
        without = await _prompt_all(editor, sessions, chunks=1)
        spent = await _prompt_all(editor, sessions, chunks=CHUNKS) - without
        words = {editor.text(each).count(WORD.rstrip()) for each in sessions}
        assert words == {CHUNKS + 2}, f"an editor was sent {words} words"
        sent = sum(len(editor.updates(each, "agent_message_chunk")) for each in sessions)
    if sent < STREAMS * CHUNKS:
        sys.stderr.write(f"of {STREAMS * CHUNKS} chunks the editor got {sent}\n")
    return spent / (STREAMS * CHUNKS)


async def _prompt_all(editor: ProcessClient, sessions: list[str], *, chunks: int) -> float:
    """Return the CPU seconds that the editor's agent took for one prompt in each session."""
    before = cpu_seconds(editor.process.pid)
    prompt = reply_prompt(text=WORD * chunks, chunks=chunks, gap=GAP)
    await asyncio.gather(*(editor.prompt(each, prompt) for each in sessions))
    return cpu_seconds(editor.process.pid) - before


class Round(Struct, frozen=True):
    python: float
    cold: Start
    warm: Start
    memory: Memory
    recorded: float
    forwarded: float


async def _run_round(directory: Path, provider: str) -> Round:
    starts = AcpStage(directory / "starts", provider)
    cold, warm = await _start_cold_and_warm(starts)
    return Round(
        python=_start_python(),
        cold=cold,
        warm=warm,
        memory=await _weigh_agents(AcpStage(directory / "memory", provider)),
        recorded=await _record_chunks(AcpStage(directory / "recorded", provider)),
        forwarded=await _forward_chunks(AcpStage(directory / "forwarded", provider)),
    )


def _figures(seen: list[Round]) -> list[Figure]:
    first = median(start.first_frame for each in seen for start in (each.cold, each.warm))
    return [
        Figure("`asyncagents acp`, from its start to the answer to `initialize`", first, "s", "≤ 0.6"),
        Figure("… to that to `session/new`, a server runs", median(each.warm.session for each in seen), "s"),
        Figure("… none runs", median(each.cold.session for each in seen), "s"),
        Figure("… for comparison, `python -c pass`", median(each.python for each in seen), "s"),
        Figure(
            f"memory of ours for an external agent, {MANY} of them",
            median(each.memory.many for each in seen),
            "MB",
            "≤ 1",
        ),
        Figure(f"… {FEW} of them", median(each.memory.few for each in seen), "MB", "≤ 1"),
        Figure(
            f"CPU of a chunk of an external agent, recorded, {STREAMS} streams",
            median(each.recorded for each in seen) * 1e6,
            "µs",
            "≤ 100",
        ),
        Figure(
            "CPU of a chunk that `asyncagents acp` forwards to its editor",
            median(each.forwarded for each in seen) * 1e6,
            "µs",
            "≤ 100",
        ),
    ]


def measure(rounds: int = ROUNDS) -> list[Figure]:
    """Measure everything once in each round, and return the medians."""
    seen = []
    with serve_local_provider() as provider:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                seen.append(asyncio.run(_run_round(Path(directory), provider)))
    return _figures(seen)


if __name__ == "__main__":
    print(table(measure(*map(int, sys.argv[1:]))))
