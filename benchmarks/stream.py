"""What a streamed chunk costs: many streams at once over HTTP, kept and published, against decoding alone."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

from asyncagents import PartDelta, Runtime, open_runtime
from asyncagents.config.config import Config
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.engine.input.message import model_ref
from asyncagents.llm.model import ChatRequest, TextDelta, UserTurn
from asyncagents.llm.providers import Providers, open_providers
from asyncagents.server.serve import ServerOptions, open_server
from benchmarks.provider import MODEL, local_provider
from benchmarks.report import Figure

STREAMS = 200
CHUNKS = 200
CLIENTS = (1, 10)
WORD = "word "
PROMPT = f'go [[{{"text": "{WORD * CHUNKS}", "chunks": {CHUNKS}, "gap": 0.02}}]]'


async def _decoded(providers: Providers, ref: ModelRef) -> int:
    request = ChatRequest(model=ref, messages=(UserTurn(PROMPT),))
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


async def _sent(config: Config, directory: Path, clients: int) -> float:
    """The same with so many clients of `/event`, in a process of their own, over HTTP."""
    async with (
        open_runtime(directory, model=MODEL, config=config) as runtime,
        open_server(runtime, directory, ServerOptions(port=0), directory="/project") as listing,
    ):
        sessions = [await runtime.create_session(directory="/project") for _ in range(STREAMS)]
        command = ["benchmarks.event_reader", f"{listing.url}/event", str(listing.token), str(clients)]
        reader = await asyncio.create_subprocess_exec(sys.executable, "-m", *command, stdout=PIPE)
        assert reader.stdout is not None
        await reader.stdout.readline()
        cpu = time.process_time()
        await asyncio.gather(*(runtime.prompt(session.id, PROMPT) for session in sessions))
        cpu = time.process_time() - cpu
        last = await runtime.create_session(directory="/project", title="over")
        counted = (await reader.stdout.read()).split()
        await reader.wait()
    assert last.title == "over"
    assert len(counted) == clients, "a client was lost"
    if {int(each) for each in counted} != {STREAMS * CHUNKS}:
        sys.stderr.write(
            f"clients fell behind: of {STREAMS * CHUNKS} pieces they were sent {counted[0].decode()}\n"
        )
    return cpu


async def measure(directory: Path) -> list[Figure]:
    with local_provider(directory) as config:
        raw_cpu, raw_chunks = await _raw(config)
        cpu, chunks, answers = await _kept(config, directory)
        sent = [await _sent(config, directory / str(clients), clients) for clients in CLIENTS]
    assert raw_chunks == chunks, f"{raw_chunks} chunks came instead of {chunks}"
    assert set(answers) == {(WORD * CHUNKS).rstrip()}, "an answer is not what was streamed"
    return [
        Figure("CPU of a streamed chunk, 200 streams, decoded only", raw_cpu / raw_chunks * 1e6, "µs"),
        Figure("… kept in the store and published to a listener", cpu / chunks * 1e6, "µs", "≤ 60"),
        Figure("… kept and sent to a client of `/event`", sent[0] / chunks * 1e6, "µs", "≤ 60"),
        Figure(f"… to {CLIENTS[1]} clients", sent[1] / chunks * 1e6, "µs"),
    ]
