"""Metrics of this process: counts, durations, tokens. The number of labels is bounded."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self, get_args

from asyncagents.domain.call.call import Call, Completed, Settled
from asyncagents.domain.control import Snapshot
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import SessionId
from asyncagents.domain.port import Clock
from asyncagents.engine.observer import (
    UNWATCHED,
    Edge,
    Seen,
    SeenModel,
    SeenTool,
    Trace,
    Watch,
    result_in,
)
from asyncagents.engine.run import PARKED, Run
from asyncagents.engine.tool import Ended
from asyncagents.errors import AsyncAgentsError
from asyncagents.llm.model import Finish, FromModel, Request, StepFinish

MOST_LABELS = 200
"""Max model names, and max tool names: a model may invent them, and each is kept for good."""
OTHER = "other"
FINISHES = frozenset(get_args(Finish))
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bucket bounds of durations, in seconds."""


class Tally:
    """Counts by labels."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str, by: int = 1) -> None:
        self.counts[labels] = self.counts.get(labels, 0) + by


class Spread:
    """Durations by one label: the number in each bucket, and the sum."""

    def __init__(self) -> None:
        self.buckets: dict[str, list[int]] = {}
        self.sums: dict[str, float] = {}

    def add(self, label: str, seconds: float) -> None:
        buckets = self.buckets.setdefault(label, [0] * (len(BOUNDS) + 1))
        buckets[bisect_left(BOUNDS, seconds)] += 1
        self.sums[label] = self.sums.get(label, 0.0) + seconds


class Names:
    """Keeps the first `MAX_LABELS` names; later ones become `other`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= MOST_LABELS:
            return OTHER
        self._known.add(name)
        return name


class Counters:
    """An observer that counts, and forwards to another observer, which may trace."""

    def __init__(self, clock: Clock, also: Watch = UNWATCHED) -> None:
        self._clock = clock
        self._also = also
        self._models = Names()
        self._tools = Names()
        self.turns, self.runs = Tally(), Spread()
        self.requests, self.request_seconds, self.tokens = Tally(), Spread(), Tally()
        self.calls, self.call_seconds = Tally(), Spread()
        self.results, self.faults = Tally(), Tally()
        self.stuck = Tally()
        """Due rows that could not be expired, by kind."""
        self.answers, self.answer_seconds = Tally(), Spread()
        self.streams = 0
        """Open event streams."""

    @property
    def tracing(self) -> bool:
        return self._also.tracing

    def caller(self) -> Trace | None:
        return self._also.caller()

    def under(self, trace: str) -> AbstractContextManager[object]:
        return self._also.under(trace)

    def run(self, run: Run, snapshot: Snapshot) -> Seen:
        return _CountedRun(self, self._also.run(run, snapshot), run)

    def model(self, request: Request, session_id: SessionId, agent: str) -> SeenModel:
        name = self._models.of(f"{request.model.provider_id}/{request.model.model_id}")
        return _CountedModel(self, self._also.model(request, session_id, agent), name)

    def tool(self, call: Call) -> SeenTool:
        return _CountedTool(self, self._also.tool(call), self._tools.of(call.tool))

    def refused(self, call: Call) -> None:
        self.calls.add(self._tools.of(call.tool), "refused")
        self._also.refused(call)

    def settled(self, call: Call, trace: Trace | None, began: int) -> None:
        done = isinstance(call.state, Settled) and isinstance(call.state.result, Completed)
        self.results.add(self._tools.of(call.tool), "completed" if done else "failed")
        self._also.settled(call, trace, began)

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        """Count an exception, unless it is one of our own (`AsyncAgentsError`)."""
        if not isinstance(error, AsyncAgentsError):
            self.faults.add(edge)
        self._also.report_fault(edge, error)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an HTTP response; `route`: the path template, or one word for all unmatched requests."""
        self.answers.add(route, str(status))
        self.answer_seconds.add(route, seconds)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count an event stream as open inside the block."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def now(self) -> int:
        return self._clock.now()


class _Counted:
    """Wraps a span of the inner observer and counts it when it ends."""

    def __init__(self, counters: Counters, name: str, seen: Seen) -> None:
        self._counters = counters
        self._name = name
        self._seen = seen
        self._began = counters.now()

    @property
    def trace(self) -> Trace | None:
        return self._seen.trace

    def __enter__(self) -> Self:
        self._seen.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._seen.__exit__(kind, error, where)
        self._over(max(0, self._counters.now() - self._began) / 1000, error)

    def _over(self, seconds: float, error: BaseException | None) -> None:
        raise NotImplementedError


class _CountedRun(_Counted):
    def __init__(self, counters: Counters, also: Seen, run: Run) -> None:
        super().__init__(counters, "", also)
        self._run = run

    def _over(self, seconds: float, error: BaseException | None) -> None:
        outcome = self._run.outcome
        if outcome and outcome != PARKED:
            self._counters.turns.add(outcome)
        self._counters.runs.add("", seconds)


class _CountedModel(_Counted):
    def __init__(self, counters: Counters, also: SeenModel, name: str) -> None:
        super().__init__(counters, name, also)
        self._also = also
        self._outcome = "aborted"

    def ended(
        self, finish: StepFinish | None, failure: Failure | None, said: Callable[[], FromModel]
    ) -> None:
        self._also.ended(finish, failure, said)
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

    def _over(self, seconds: float, error: BaseException | None) -> None:
        outcome = "error" if isinstance(error, Exception) else self._outcome
        self._counters.requests.add(self._name, outcome)
        self._counters.request_seconds.add(self._name, seconds)


class _CountedTool(_Counted):
    def __init__(self, counters: Counters, also: SeenTool, name: str) -> None:
        super().__init__(counters, name, also)
        self._also = also
        self._outcome = "aborted"

    def ended(self, outcome: Ended) -> None:
        self._also.ended(outcome)
        result = result_in(outcome)
        if result is None:
            self._outcome = "waiting"
        else:
            self._outcome = "completed" if isinstance(result, Completed) else "failed"

    def _over(self, seconds: float, error: BaseException | None) -> None:
        self._counters.calls.add(self._name, self._outcome)
        self._counters.call_seconds.add(self._name, seconds)
