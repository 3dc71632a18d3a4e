"""`/metrics` for Prometheus, and `/ready` for load balancers."""

from collections.abc import Iterable, Iterator, Mapping

from asyncagents.domain.census import Census
from asyncagents.domain.shape import Shape
from asyncagents.engine.metrics import BUCKET_BOUNDS, Counters, Histogram, LabelledCounter
from asyncagents.server.http.messages import Request, Response, error_response, json_response
from asyncagents.server.route import Routes, ServerContext
from asyncagents.version import VERSION

routes = Routes()

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Ready(Shape, frozen=True, kw_only=True):
    status: str


@routes.get("/metrics", access="local", response=str, content_type=CONTENT_TYPE)
async def metrics(server: ServerContext, request: Request) -> Response:
    """Get Prometheus metrics of the store and of this process."""
    lines = [
        *_gauge("info", "Version of the server.", {(VERSION,): 1}, "version"),
        *_gauge("uptime_seconds", "Seconds since the start.", (server.clock.now() - server.started) / 1000),
        *_gauge("live_runs", "Sessions that this process runs.", server.runtime.live),
        *_store_metrics(await server.runtime.census()),
        *_process_metrics(server.runtime.counters),
    ]
    return Response(200, "\n".join((*lines, "")).encode(), content_type=CONTENT_TYPE)


@routes.get("/ready", access="open", response=Ready)
async def ready(server: ServerContext, request: Request) -> Response:
    """Check readiness; 503 says why sessions do not run.

    The reason is short and names no path or row, since this route needs no token."""
    if server.closing.is_set():
        return error_response(503, "the server is stopping")
    if not server.runtime.serves and not server.runtime.tasks.is_served_elsewhere(""):
        return error_response(503, "no sessions run here: this process only reads and admits input")
    if server.runtime.defaults.missing is not None:
        return error_response(
            503, "no model is configured, so only history is available: the log says what to set"
        )
    if server.runtime.trouble is not None:
        return error_response(503, "work cannot be written to the store; it is retried, and the log says why")
    reason = await server.runtime.readiness.trouble()
    if reason is not None:
        return error_response(503, f"requests cannot be stored: {reason}")
    return json_response(Ready(status="ready"))


def _store_metrics(census: Census) -> Iterator[str]:
    """Format the counts of the store, over all processes. A count at its limit means that many or more."""
    yield from _gauge("sessions", "Sessions.", census.sessions)
    yield from _gauge(
        "sessions_active", "Sessions that run or are ready to.", _by_label(census.active), "state"
    )
    yield from _gauge("tasks", "Background tasks.", _by_label(census.tasks), "status")
    yield from _gauge("asks", "Calls that wait for a person.", census.asks)
    pending = _by_label(census.pending)
    yield from _gauge("pending_calls", "Calls whose result comes from outside.", pending, "status")
    owed = _by_label(census.deliveries)
    yield from _gauge("deliveries", "Outgoing webhooks that are due or were given up.", owed, "state")
    under_way = census.external_prompts
    yield from _gauge("external_prompts", "Prompts under way at external agents.", under_way)
    yield from _gauge("store_bytes", "Size of the database.", census.bytes)
    yield from _gauge(
        "overdue_seconds", "Lateness of the oldest due row; 0: none is due.", census.late / 1000
    )


def _process_metrics(counters: Counters) -> Iterator[str]:
    """Format the counters of this process since its start."""
    yield from _counter("turns", "Turns that ended.", counters.turns, "outcome")
    yield from _histogram("run_seconds", "Duration of runs, from claim to park or rest.", counters.runs)
    yield from _counter("model_requests", "Requests to models.", counters.requests, "model", "outcome")
    yield from _histogram(
        "model_request_seconds", "Duration of model requests.", counters.request_seconds, "model"
    )
    yield from _counter("tokens", "Tokens that providers reported.", counters.tokens, "model", "kind")
    yield from _counter("tool_calls", "Tool calls.", counters.calls, "tool", "outcome")
    yield from _histogram("tool_call_seconds", "Duration of tool calls.", counters.call_seconds, "tool")
    yield from _counter("results", "Results that came from outside.", counters.results, "tool", "outcome")
    yield from _counter("faults", "Unexpected exceptions.", counters.faults, "edge")
    yield from _counter("server_task_polls", "Polls of MCP servers for tasks.", counters.polls, "outcome")
    yield from _counter("stuck_rows", "Due rows that could not be processed.", counters.stuck, "kind")
    yield from _counter("http_requests", "HTTP requests.", counters.responses, "route", "status")
    yield from _histogram(
        "http_request_seconds", "Duration of HTTP requests.", counters.response_seconds, "route"
    )
    yield from _gauge("event_streams", "Open event streams.", counters.streams)


def _by_label(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(name,): count for name, count in counts.items()}


def _gauge(
    name: str, about: str, values: float | Mapping[tuple[str, ...], float], *labels: str
) -> Iterator[str]:
    found: Mapping[tuple[str, ...], float] = values if isinstance(values, Mapping) else {(): values}
    yield from _head(name, about, "gauge")
    yield from _samples(name, labels, found)


def _counter(name: str, about: str, counter: LabelledCounter, *labels: str) -> Iterator[str]:
    yield from _head(f"{name}_total", about, "counter")
    yield from _samples(f"{name}_total", labels, counter.counts)


def _histogram(name: str, about: str, histogram: Histogram, *labels: str) -> Iterator[str]:
    yield from _head(name, about, "histogram")
    for label, buckets in sorted(histogram.buckets.items()):
        own = dict(zip(labels, (label,), strict=False))
        count = 0
        for bound, within in zip((*map(_number, BUCKET_BOUNDS), "+Inf"), buckets, strict=True):
            count += within
            yield _sample(f"{name}_bucket", own | {"le": bound}, count)
        yield _sample(f"{name}_sum", own, histogram.sums[label])
        yield _sample(f"{name}_count", own, count)


def _samples(name: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Iterator[str]:
    for each, value in sorted(values.items()):
        yield _sample(name, dict(zip(labels, each, strict=True)), value)


def _head(name: str, about: str, kind: str) -> Iterable[str]:
    return f"# HELP asyncagents_{name} {about}", f"# TYPE asyncagents_{name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
    return (
        f"asyncagents_{name}{{{inside}}} {_number(value)}"
        if inside
        else f"asyncagents_{name} {_number(value)}"
    )


def _escape_label(text: str) -> str:
    """Escape a label value: models invent tool names with quotes or line breaks."""
    text = text.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
