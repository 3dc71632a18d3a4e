"""`/metrics` for Prometheus, and `/ready` for whoever sends requests here only while they are worked on."""

from collections.abc import Iterable, Iterator, Mapping

from asyncagents.domain.shape import Shape
from asyncagents.engine.counters import BOUNDS, Counters, Spread, Tally
from asyncagents.engine.runtime import VERSION
from asyncagents.server.http import Answer, Request, refused, shown
from asyncagents.server.route import Route, Site
from asyncagents.store.verb.census import Census

KIND = "text/plain; version=0.0.4; charset=utf-8"


class Ready(Shape, frozen=True, kw_only=True):
    status: str


async def ready(site: Site, request: Request) -> Answer:
    """What is wrong is said in a word: anybody may ask, and a path or a row is not for anybody."""
    if site.closing.is_set():
        return refused(503, "the server stops")
    if not site.runtime.serves and not site.runtime.tasks.served_elsewhere(""):
        return refused(503, "no session is worked on here: it only reads and takes in")
    if site.runtime.defaults.missing is not None:
        return refused(503, "there is no model to ask, and history is shown alone: the log says what to set")
    if site.runtime.trouble is not None:
        return refused(503, "what is done cannot be written down; it is tried again, and the log says why")
    reason = await site.runtime.readiness.trouble()
    if reason is not None:
        return refused(503, f"requests cannot be stored: {reason}")
    return shown(Ready(status="ready"))


async def metrics(site: Site, request: Request) -> Answer:
    lines = [
        *_gauge("info", "Which program this is.", {(VERSION,): 1}, "version"),
        *_gauge("uptime_seconds", "How long it has been up.", (site.clock.now() - site.started) / 1000),
        *_gauge("live_runs", "Sessions that are worked on by this process.", site.runtime.live),
        *_rows(await site.runtime.census()),
        *_counted(site.runtime.counters),
    ]
    return Answer(200, "\n".join((*lines, "")).encode(), kind=KIND)


def _rows(census: Census) -> Iterator[str]:
    """Of the store, whoever works on it. A count at its limit means: that many, or more."""
    yield from _gauge("sessions", "Sessions.", census.sessions)
    yield from _gauge("sessions_active", "Sessions at work, or about to be.", _named(census.active), "state")
    yield from _gauge("tasks", "Background tasks.", _named(census.tasks), "status")
    pending = _named(census.pending)
    yield from _gauge("pending_calls", "Calls whose result comes from outside.", pending, "status")
    owed = _named(census.deliveries)
    yield from _gauge("deliveries", "Outgoing webhooks that are owed, or were given up.", owed, "state")
    yield from _gauge("store_bytes", "Size of the database.", census.bytes)
    yield from _gauge(
        "overdue_seconds", "How late the oldest is that is due; 0: none is.", census.late / 1000
    )


def _counted(counters: Counters) -> Iterator[str]:
    """Of this process, since it began."""
    yield from _tally("turns", "Turns that ended.", counters.turns, "outcome")
    yield from _spread("run_seconds", "From taking a session up until it waits or rests.", counters.runs)
    yield from _tally("model_requests", "Requests to models.", counters.requests, "model", "outcome")
    yield from _spread("model_request_seconds", "How long they took.", counters.request_seconds, "model")
    yield from _tally("tokens", "Tokens that providers reported.", counters.tokens, "model", "kind")
    yield from _tally("tool_calls", "Calls of tools.", counters.calls, "tool", "outcome")
    yield from _spread("tool_call_seconds", "How long they took.", counters.call_seconds, "tool")
    yield from _tally("results", "Results that came from outside.", counters.results, "tool", "outcome")
    yield from _tally("faults", "Exceptions that nothing was prepared for.", counters.faults, "edge")
    yield from _tally("stuck_rows", "Rows that were due and could not be ended.", counters.stuck, "kind")
    yield from _tally("http_requests", "Requests by HTTP.", counters.answers, "route", "status")
    yield from _spread("http_request_seconds", "Until they were answered.", counters.answer_seconds, "route")
    yield from _gauge("event_streams", "Open event streams.", counters.streams)


def _named(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(name,): count for name, count in counts.items()}


def _gauge(
    name: str, about: str, values: float | Mapping[tuple[str, ...], float], *labels: str
) -> Iterator[str]:
    found: Mapping[tuple[str, ...], float] = values if isinstance(values, Mapping) else {(): values}
    yield from _head(name, about, "gauge")
    yield from _samples(name, labels, found)


def _tally(name: str, about: str, tally: Tally, *labels: str) -> Iterator[str]:
    yield from _head(f"{name}_total", about, "counter")
    yield from _samples(f"{name}_total", labels, tally.counts)


def _spread(name: str, about: str, spread: Spread, *labels: str) -> Iterator[str]:
    yield from _head(name, about, "histogram")
    for label, buckets in sorted(spread.buckets.items()):
        own = dict(zip(labels, (label,), strict=False))
        count = 0
        for bound, within in zip((*map(_number, BOUNDS), "+Inf"), buckets, strict=True):
            count += within
            yield _sample(f"{name}_bucket", own | {"le": bound}, count)
        yield _sample(f"{name}_sum", own, spread.sums[label])
        yield _sample(f"{name}_count", own, count)


def _samples(name: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Iterator[str]:
    for each, value in sorted(values.items()):
        yield _sample(name, dict(zip(labels, each, strict=True)), value)


def _head(name: str, about: str, kind: str) -> Iterable[str]:
    return f"# HELP asyncagents_{name} {about}", f"# TYPE asyncagents_{name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_quoted(text)}"' for label, text in labels.items())
    return (
        f"asyncagents_{name}{{{inside}}} {_number(value)}"
        if inside
        else f"asyncagents_{name} {_number(value)}"
    )


def _quoted(text: str) -> str:
    """A model invents names of tools: none of them ends a label, or a line."""
    text = text.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/metrics",
        handler=metrics,
        access="local",
        summary="Numbers for Prometheus, about the store and about this process",
        answer=str,
        gives=KIND,
    ),
    Route(
        method="GET",
        path="/ready",
        handler=ready,
        access="open",
        summary="Whether sessions are worked on here; 503 says why not",
        answer=Ready,
    ),
)
