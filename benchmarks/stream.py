"""What a streamed chunk costs: many streams at once over HTTP, kept and published, against decoding alone."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from asyncagents import PartDelta, Runtime, open_runtime
from asyncagents.config.config import Config
from asyncagents.domain.message import ModelRef
from asyncagents.engine.input import model_ref
from asyncagents.llm.model import FromUser, Request, TextDelta
from asyncagents.llm.providers import Providers, open_providers
from benchmarks.provider import MODEL, local_provider
from benchmarks.report import Figure

STREAMS = 200
CHUNKS = 200
WORD = "word "
PROMPT = f'go [[{{"text": "{WORD * CHUNKS}", "chunks": {CHUNKS}, "gap": 0.02}}]]'


async def _decoded(providers: Providers, ref: ModelRef) -> int:
    request = Request(model=ref, messages=(FromUser(PROMPT),))
    return len([1 async for event in providers.stream(request) if isinstance(event, TextDelta)])


async def _raw(config: Config) -> tuple[float, int]:
    ref = model_ref(MODEL)
    assert ref is not None
    async with open_providers(config) as providers:
        await _decoded(providers, ref)
        cpu = time.process_time()
        chunks = await asyncio.gather(*(_decoded(providers, ref) for _ in range(STREAMS)))
        return time.process_time() - cpu, sum(chunks)


async def _count(runtime: Runtime, wanted: int) -> int:
    """One listener to everything, as a client of the event stream is."""
    heard = 0
    async with runtime.events() as events:
        async for event in events:
            heard += isinstance(event, PartDelta)
            if heard >= wanted:
                return heard
    return heard


async def _kept(config: Config, directory: Path) -> tuple[float, int, Sequence[str]]:
    async with open_runtime(directory, model=MODEL, config=config) as runtime:
        sessions = [await runtime.create_session(directory="/project") for _ in range(STREAMS)]
        async with asyncio.TaskGroup() as group:
            cpu = time.process_time()
            listener = group.create_task(_count(runtime, STREAMS * CHUNKS))
            asked = [group.create_task(runtime.prompt(session.id, PROMPT)) for session in sessions]
            answers = [(await each).text for each in asked]
            listener.cancel()
            cpu = time.process_time() - cpu
    return cpu, STREAMS * CHUNKS, answers


async def measure(directory: Path) -> list[Figure]:
    with local_provider(directory) as config:
        raw_cpu, raw_chunks = await _raw(config)
        cpu, chunks, answers = await _kept(config, directory)
    assert raw_chunks == chunks, f"{raw_chunks} chunks came instead of {chunks}"
    assert set(answers) == {(WORD * CHUNKS).rstrip()}, "an answer is not what was streamed"
    return [
        Figure("CPU of a streamed chunk, 200 streams, decoded only", raw_cpu / raw_chunks * 1e6, "µs"),
        Figure("… kept in the store and published to a listener", cpu / chunks * 1e6, "µs", "≤ 60"),
    ]
