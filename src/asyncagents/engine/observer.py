"""The observer of the engine's work, for metrics and traces; the default one does nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from asyncagents.domain.call.call import Call, Completed, Failed, Result, Settled
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.run import Run
from asyncagents.engine.tool import CallOutcome, WithFacts
from asyncagents.llm.model import ChatRequest, ModelTurn, StepFinish
from asyncagents.store.store import Store

Trace: TypeAlias = str
"""A W3C `traceparent`."""
Edge: TypeAlias = Literal["run", "call", "tool", "sweep", "courier", "title"]
"""Where an unexpected exception is caught, so that other work goes on."""


class ObserverSpan(Protocol):
    """A span of work; it ends with its block, with an exception or without."""

    @property
    def trace(self) -> Trace | None:
        """The span's `traceparent`; None: it is not traced."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


class ModelSpan(ObserverSpan, Protocol):
    def record_outcome(
        self, finish: StepFinish | None, failure: Failure | None, build_turn: Callable[[], ModelTurn]
    ) -> None:
        """Record how the stream ended; `build_turn` returns the answer, for observers that record texts."""
        ...


class ToolSpan(ObserverSpan, Protocol):
    def record_outcome(self, outcome: CallOutcome) -> None: ...


class Observer(Protocol):
    @property
    def is_tracing(self) -> bool:
        """Whether the observer traces."""
        ...

    def caller_trace(self) -> Trace | None:
        """Return the caller's `traceparent`, if there is one."""
        ...

    def use_parent(self, trace: str) -> AbstractContextManager[object]:
        """Use `trace` as the parent span in the block; empty keeps the current, an invalid one detaches."""
        ...

    def run_span(self, run: Run, snapshot: Snapshot) -> ObserverSpan:
        """Return the span of a run; at its end `run.outcome` says whether the session parked or rests."""
        ...

    def model_span(self, request: ChatRequest, session_id: SessionId, agent: str) -> ModelSpan: ...

    def tool_span(self, call: Call) -> ToolSpan: ...

    def report_refused(self, call: Call) -> None:
        """Report a call that never ran: unknown tool, invalid arguments, or denied by a rule."""
        ...

    def report_settled(self, call: Call, trace: Trace | None, began: int) -> None:
        """Report a result from outside; `trace`: of the call's session, `began`: when the result came."""
        ...

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        """Report an exception that was caught and logged at an edge.

        One exception may be reported twice: a call that cannot be stored ends its run.
        """
        ...


class _NoopSpan:
    """A span that does nothing, shared by all work."""

    trace: Trace | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...

    def record_outcome(self, *how: object) -> None: ...


_NOOP_SPAN = _NoopSpan()
_NOOP_CONTEXT = nullcontext()


class NoopObserver:
    is_tracing: bool = False

    def caller_trace(self) -> None:
        return None

    def use_parent(self, trace: str) -> AbstractContextManager[object]:
        return _NOOP_CONTEXT

    def run_span(self, run: Run, snapshot: Snapshot) -> ObserverSpan:
        return _NOOP_SPAN

    def model_span(self, request: ChatRequest, session_id: SessionId, agent: str) -> ModelSpan:
        return _NOOP_SPAN

    def tool_span(self, call: Call) -> ToolSpan:
        return _NOOP_SPAN

    def report_refused(self, call: Call) -> None: ...

    def report_settled(self, call: Call, trace: Trace | None, began: int) -> None: ...

    def report_fault(self, edge: Edge, error: BaseException) -> None: ...


NOOP_OBSERVER = NoopObserver()


async def report_settled(observer: Observer, store: Store, call: Call, began: int) -> Call:
    """Report `call` to the observer if it was settled after `began` (not for an idempotent repeat)."""
    if isinstance(call.state, Settled) and call.state.at >= began:
        observer.report_settled(
            call, await store.trace(call.session_id) if observer.is_tracing else None, began
        )
    return call


def result_of(outcome: CallOutcome) -> Result | None:
    """Return the result in an outcome; None: the call waits."""
    match outcome:
        case Completed() | Failed():
            return outcome
        case WithFacts(Completed() | Failed() as result):
            return result
        case _:
            return None
