"""One server put to work: its start, its latency, many sessions at once, an abort, and a kill."""

import asyncio
import signal
import time
from statistics import median

from msgspec import Struct

from benchmarks.opencode.client import Client, finish_of, open_client, text_of
from benchmarks.opencode.model import WORD
from benchmarks.opencode.process import cpu_seconds, forget_peak, memory_mb
from benchmarks.opencode.server import Server
from benchmarks.opencode.wire import Ear, listen

LATENCY_CALLS = 100
KILLED = 10
CHUNKS, GAP = 40, 0.1
PATIENCE = 300.0
TRIVIAL = "hi [[chunks=1]]"


class Fan(Struct, frozen=True, kw_only=True):
    """N children of one root, a prompt to each, until the last is idle."""

    children: int
    seconds: float
    cpu_ms: float
    """Of the server, for one session."""
    create_cpu_ms: float
    p50_ms: float
    p99_ms: float
    """Of `prompt_async`, while all of them work."""
    before_mb: float
    peak_mb: float
    events: float
    """For one session."""
    client_cpu_ms: float

    @property
    def rate(self) -> float:
        return self.children / self.seconds


class Latency(Struct, frozen=True):
    create_ms: float
    prompt_p50_ms: float
    prompt_p99_ms: float
    idle_ms: float
    """From the prompt to the rest of the session."""


class Recovery(Struct, frozen=True):
    """Of sessions that were answering when their server was killed."""

    finished: int
    """Have the whole answer after the next start, without being asked again."""
    kept: int
    """Still show what they had said by then."""
    ready_s: float


class Start(Struct, frozen=True):
    ready_s: float
    idle_mb: float


class Seen(Struct, frozen=True, kw_only=True):
    start: Start
    latency: Latency
    fans: dict[int, Fan]
    slow: Fan | None
    """The model takes 2 s."""
    streams: Fan | None
    """50 chunks, 20 ms apart."""
    abort_ms: float
    recovery: Recovery


async def start(server: Server) -> Start:
    ready = await server.start()
    await asyncio.sleep(2)
    return Start(ready, memory_mb(server.pid))


async def latency(client: Client, ear: Ear) -> Latency:
    creates, prompts, idles = [], [], []
    for number in range(LATENCY_CALLS + 5):
        began = time.perf_counter()
        session = await client.create(f"latency {number}")
        created, over = time.perf_counter(), ear.until_idle([session])
        await client.prompt(session, TRIVIAL)
        prompted = time.perf_counter()
        await asyncio.wait_for(over, PATIENCE)
        creates.append(created - began)
        prompts.append(prompted - created)
        idles.append(time.perf_counter() - created)
    creates, prompts, idles = creates[5:], prompts[5:], idles[5:]  # the first ones warm it up
    return Latency(median(creates) * 1e3, median(prompts) * 1e3, _p99(prompts) * 1e3, median(idles) * 1e3)


async def fan(server: Server, client: Client, children: int, text: str = TRIVIAL) -> Fan:
    root = await client.create(f"root of {children}")
    before, spent = memory_mb(server.pid), cpu_seconds(server.pid)
    sessions: list[str] = []

    async def create(number: int, link: object) -> None:
        sessions.append(await client.create(f"child {number}", parent=root, link=link))  # type: ignore[arg-type]

    await client.spread(range(children), create)
    created = cpu_seconds(server.pid) - spent
    ear = await listen(server.place)
    over = ear.until_idle(sessions)
    forget_peak(server.pid)
    spent, own, heard = cpu_seconds(server.pid), time.process_time(), ear.events
    began = asyncio.get_running_loop().time()
    spans = await client.spread(sessions, lambda each, link: client.prompt(each, text, link=link))
    ended = await asyncio.wait_for(over, PATIENCE)
    own, spent = time.process_time() - own, cpu_seconds(server.pid) - spent
    ear.close()
    peak, heard = memory_mb(server.pid, peak=True), ear.events - heard
    await _check(client, sessions)
    return Fan(
        children=children,
        seconds=ended - began,
        cpu_ms=spent / children * 1e3,
        create_cpu_ms=created / children * 1e3,
        p50_ms=median(spans) * 1e3,
        p99_ms=_p99(spans) * 1e3,
        before_mb=before,
        peak_mb=peak,
        events=heard / children,
        client_cpu_ms=own / children * 1e3,
    )


async def _check(client: Client, sessions: list[str]) -> None:
    """A figure counts only if all the work was done."""
    ends = [finish_of(await client.messages(each)) for each in sessions]
    if unfinished := [end for end in ends if end != "stop"]:
        raise ValueError(f"{len(unfinished)} of {len(ends)} sessions have no answer: {set(unfinished)}")


async def abort(server: Server, client: Client) -> float:
    """In the midst of an answer: how long until the session is idle, in ms."""
    session = await client.create("abort")
    ear = await listen(server.place)
    await client.prompt(session, "[[chunks=500 gap=0.05]]")
    await asyncio.sleep(1)
    over, began = ear.until_idle([session]), asyncio.get_running_loop().time()
    await client.ask("POST", f"/session/{session}/abort")
    ended = await asyncio.wait_for(over, 30)
    ear.close()
    return (ended - began) * 1e3


async def recovery(server: Server, client: Client) -> Recovery:
    sessions = [await client.create(f"killed {number}") for number in range(KILLED)]
    for session in sessions:
        await client.prompt(session, f"[[chunks={CHUNKS} gap={GAP}]]")
    await asyncio.sleep(CHUNKS * GAP / 2)
    client.close()
    server.end(signal.SIGKILL)
    ready = await server.start()
    again = open_client(server.place, 1)
    finished: set[str] = set()
    end = time.perf_counter() + 3 * CHUNKS * GAP
    while time.perf_counter() < end and len(finished) < KILLED:
        await asyncio.sleep(0.5)
        for session in sessions:
            messages = await again.messages(session)
            if finish_of(messages) == "stop" and text_of(messages[-1]).split() == WORD.split() * CHUNKS:
                finished.add(session)
    kept = 0
    for session in sessions:
        answers = [each for each in await again.messages(session) if each["info"]["role"] == "assistant"]
        kept += bool(answers) and bool(text_of(answers[0]).strip())
    again.close()
    return Recovery(len(finished), kept, ready)


async def measure(server: Server, sizes: tuple[int, ...], *, full: bool) -> Seen:
    begun = await start(server)
    client = open_client(server.place)
    ear = await listen(server.place)
    waited = await latency(client, ear)
    ear.close()
    fans = {children: await fan(server, client, children) for children in sizes}
    return Seen(
        start=begun,
        latency=waited,
        fans=fans,
        slow=await fan(server, client, max(sizes), "[[delay=2 chunks=1]]") if full else None,
        streams=await fan(server, client, 200, "[[chunks=50 gap=0.02]]") if full else None,
        abort_ms=await abort(server, client),
        recovery=await recovery(server, client),
    )


def _p99(spans: list[float]) -> float:
    return sorted(spans)[min(len(spans) - 1, len(spans) * 99 // 100)]
