"""The observer of the engine's work, for metrics and traces; the default one does nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from asyncagents.domain.call.call import Call, Completed, Failed, Result, Settled
from asyncagents.domain.control import Snapshot
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.id import SessionId
from asyncagents.engine.run import Run
from asyncagents.engine.tool import Ended, Together
from asyncagents.llm.model import FromModel, Request, StepFinish
from asyncagents.store.store import Store

Trace: TypeAlias = str
"""A W3C `traceparent`."""
Edge: TypeAlias = Literal["run", "call", "tool", "sweep", "courier", "title"]
"""Where an unexpected exception is caught, so that other work goes on."""


class Seen(Protocol):
    """A span of work; it ends with its block, with an exception or without."""

    @property
    def trace(self) -> Trace | None:
        """The span's `traceparent`; None: it is not traced."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


class SeenModel(Seen, Protocol):
    def ended(
        self, finish: StepFinish | None, failure: Failure | None, said: Callable[[], FromModel]
    ) -> None:
        """Record how the stream ended; `said` returns the answer, for observers that record texts."""
        ...


class SeenTool(Seen, Protocol):
    def ended(self, outcome: Ended) -> None: ...


class Watch(Protocol):
    @property
    def tracing(self) -> bool:
        """Whether the observer traces."""
        ...

    def caller(self) -> Trace | None:
        """Return the caller's `traceparent`, if there is one."""
        ...

    def under(self, trace: str) -> AbstractContextManager[object]:
        """Use `trace` as the parent span in the block; empty keeps the current, an invalid one detaches."""
        ...

    def run(self, run: Run, snapshot: Snapshot) -> Seen:
        """Return the span of a run; at its end `run.outcome` says whether the session parked or rests."""
        ...

    def model(self, request: Request, session_id: SessionId, agent: str) -> SeenModel: ...

    def tool(self, call: Call) -> SeenTool: ...

    def refused(self, call: Call) -> None:
        """Report a call that never ran: unknown tool, invalid arguments, or denied by a rule."""
        ...

    def settled(self, call: Call, trace: Trace | None, began: int) -> None:
        """Report a result from outside; `trace`: of the call's session, `began`: when the result came."""
        ...

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        """Report an exception that was caught and logged at an edge.

        One exception may be reported twice: a call that cannot be stored ends its run.
        """
        ...


class _Nothing:
    """A span that does nothing, shared by all work."""

    trace: Trace | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...

    def ended(self, *how: object) -> None: ...


_NOTHING = _Nothing()
_NOWHERE = nullcontext()


class Unwatched:
    tracing: bool = False

    def caller(self) -> None:
        return None

    def under(self, trace: str) -> AbstractContextManager[object]:
        return _NOWHERE

    def run(self, run: Run, snapshot: Snapshot) -> Seen:
        return _NOTHING

    def model(self, request: Request, session_id: SessionId, agent: str) -> SeenModel:
        return _NOTHING

    def tool(self, call: Call) -> SeenTool:
        return _NOTHING

    def refused(self, call: Call) -> None: ...

    def settled(self, call: Call, trace: Trace | None, began: int) -> None: ...

    def report_fault(self, edge: Edge, error: BaseException) -> None: ...


UNWATCHED = Unwatched()


async def see_settled(watch: Watch, store: Store, call: Call, began: int) -> Call:
    """Report `call` to the observer if it was settled after `began` (not for an idempotent repeat)."""
    if isinstance(call.state, Settled) and call.state.at >= began:
        watch.settled(call, await store.trace(call.session_id) if watch.tracing else None, began)
    return call


def result_in(outcome: Ended) -> Result | None:
    """Return the result in an outcome; None: the call waits."""
    match outcome:
        case Completed() | Failed():
            return outcome
        case Together(Completed() | Failed() as result):
            return result
        case _:
            return None
