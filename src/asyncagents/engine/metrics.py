"""Metrics of this process: counts, durations, tokens. The number of labels is bounded."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self, get_args

from asyncagents.domain.call.call import Call, Completed, Settled
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.observer import (
    NOOP_OBSERVER,
    Edge,
    ModelSpan,
    Observer,
    ObserverSpan,
    ToolSpan,
    Trace,
    result_of,
)
from asyncagents.engine.run import PARKED, Run
from asyncagents.engine.tool import CallOutcome
from asyncagents.errors import AsyncAgentsError
from asyncagents.llm.model import ChatRequest, Finish, ModelTurn, StepFinish

MAX_LABELS = 200
"""Max model names, and max tool names: a model may invent them, and each is kept for good."""
OTHER = "other"
FINISHES = frozenset(get_args(Finish))
BUCKET_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bucket bounds of durations, in seconds."""


class LabelledCounter:
    """Counts by labels."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str, by: int = 1) -> None:
        self.counts[labels] = self.counts.get(labels, 0) + by


class Histogram:
    """Durations by one label: the number in each bucket, and the sum."""

    def __init__(self) -> None:
        self.buckets: dict[str, list[int]] = {}
        self.sums: dict[str, float] = {}

    def add(self, label: str, seconds: float) -> None:
        buckets = self.buckets.setdefault(label, [0] * (len(BUCKET_BOUNDS) + 1))
        buckets[bisect_left(BUCKET_BOUNDS, seconds)] += 1
        self.sums[label] = self.sums.get(label, 0.0) + seconds


class LabelLimit:
    """Keeps the first `MAX_LABELS` names; later ones become `other`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label_for(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= MAX_LABELS:
            return OTHER
        self._known.add(name)
        return name


class Counters:
    """An observer that counts, and forwards to another observer, which may trace."""

    def __init__(self, clock: Clock, also: Observer = NOOP_OBSERVER) -> None:
        self._clock = clock
        self._inner = also
        self._models = LabelLimit()
        self._tools = LabelLimit()
        self.turns = LabelledCounter()
        self.runs = Histogram()
        self.requests = LabelledCounter()
        self.request_seconds = Histogram()
        self.tokens = LabelledCounter()
        self.calls = LabelledCounter()
        self.call_seconds = Histogram()
        self.results = LabelledCounter()
        self.faults = LabelledCounter()
        self.stuck = LabelledCounter()
        """Due rows that could not be expired, by kind."""
        self.polls = LabelledCounter()
        """Polls of MCP servers whose tasks work for calls, by what they learned."""
        self.responses = LabelledCounter()
        self.response_seconds = Histogram()
        self.streams = 0
        """Open event streams."""
        self.client_requests = 0
        """HTTP requests of clients; those that only monitor the server are not counted."""
        self.open_requests = 0
        """Requests of clients that are being answered."""

    @property
    def is_tracing(self) -> bool:
        return self._inner.is_tracing

    def caller_trace(self) -> Trace | None:
        return self._inner.caller_trace()

    def use_parent(self, trace: str) -> AbstractContextManager[object]:
        return self._inner.use_parent(trace)

    def run_span(self, run: Run, snapshot: Snapshot) -> ObserverSpan:
        return _CountedRun(self, self._inner.run_span(run, snapshot), run)

    def model_span(self, request: ChatRequest, session_id: SessionId, agent: str) -> ModelSpan:
        name = self._models.label_for(f"{request.model.provider_id}/{request.model.model_id}")
        return _CountedModel(self, self._inner.model_span(request, session_id, agent), name)

    def tool_span(self, call: Call) -> ToolSpan:
        return _CountedTool(self, self._inner.tool_span(call), self._tools.label_for(call.tool))

    def report_refused(self, call: Call) -> None:
        self.calls.add(self._tools.label_for(call.tool), "refused")
        self._inner.report_refused(call)

    def report_settled(self, call: Call, trace: Trace | None, began: int) -> None:
        done = isinstance(call.state, Settled) and isinstance(call.state.result, Completed)
        self.results.add(self._tools.label_for(call.tool), "completed" if done else "failed")
        self._inner.report_settled(call, trace, began)

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        """Count an exception, unless it is one of our own (`AsyncAgentsError`)."""
        if not isinstance(error, AsyncAgentsError):
            self.faults.add(edge)
        self._inner.report_fault(edge, error)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an HTTP response; `route`: the path template, or one word for all unmatched requests."""
        self.responses.add(route, str(status))
        self.response_seconds.add(route, seconds)

    @contextmanager
    def count_client_request(self) -> Iterator[None]:
        """Count a request of a client as open inside the block."""
        self.client_requests += 1
        self.open_requests += 1
        try:
            yield
        finally:
            self.open_requests -= 1

    @contextmanager
    def count_stream(self) -> Iterator[None]:
        """Count an event stream as open inside the block."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def now(self) -> int:
        return self._clock.now()


class _CountedSpan:
    """Wraps a span of the inner observer and counts it when it ends."""

    def __init__(self, counters: Counters, name: str, seen: ObserverSpan) -> None:
        self._counters = counters
        self._name = name
        self._span = seen
        self._began = counters.now()

    @property
    def trace(self) -> Trace | None:
        return self._span.trace

    def __enter__(self) -> Self:
        self._span.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._span.__exit__(kind, error, where)
        self._record_end(max(0, self._counters.now() - self._began) / 1000, error)

    def _record_end(self, seconds: float, error: BaseException | None) -> None:
        raise NotImplementedError


class _CountedRun(_CountedSpan):
    def __init__(self, counters: Counters, also: ObserverSpan, run: Run) -> None:
        super().__init__(counters, "", also)
        self._run = run

    def _record_end(self, seconds: float, error: BaseException | None) -> None:
        outcome = self._run.outcome
        if outcome and outcome != PARKED:
            self._counters.turns.add(outcome)
        self._counters.runs.add("", seconds)


class _CountedModel(_CountedSpan):
    def __init__(self, counters: Counters, also: ModelSpan, name: str) -> None:
        super().__init__(counters, name, also)
        self._inner = also
        self._outcome = "aborted"

    def record_outcome(
        self, finish: StepFinish | None, failure: Failure | None, build_turn: Callable[[], ModelTurn]
    ) -> None:
        self._inner.record_outcome(finish, failure, build_turn)
        known = finish is not None and finish.finish in FINISHES
        self._outcome = "error" if failure is not None or finish is None or not known else finish.finish
        if finish is not None and finish.tokens is not None:
            self._count(finish.tokens)

    def _count(self, tokens: Tokens) -> None:
        add = self._counters.tokens.add
        for kind, count in (
            ("input", tokens.input),
            ("output", tokens.output),
            ("reasoning", tokens.reasoning),
            ("cache_read", tokens.cache.read),
            ("cache_write", tokens.cache.write),
        ):
            if count > 0:
                add(self._name, kind, by=count)

    def _record_end(self, seconds: float, error: BaseException | None) -> None:
        outcome = "error" if isinstance(error, Exception) else self._outcome
        self._counters.requests.add(self._name, outcome)
        self._counters.request_seconds.add(self._name, seconds)


class _CountedTool(_CountedSpan):
    def __init__(self, counters: Counters, also: ToolSpan, name: str) -> None:
        super().__init__(counters, name, also)
        self._inner = also
        self._outcome = "aborted"

    def record_outcome(self, outcome: CallOutcome) -> None:
        self._inner.record_outcome(outcome)
        result = result_of(outcome)
        if result is None:
            self._outcome = "waiting"
        else:
            self._outcome = "completed" if isinstance(result, Completed) else "failed"

    def _record_end(self, seconds: float, error: BaseException | None) -> None:
        self._counters.calls.add(self._name, self._outcome)
        self._counters.call_seconds.add(self._name, seconds)
