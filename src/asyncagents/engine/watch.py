"""What there is to see of the engine's work, for whoever counts or traces it. By default nobody looks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from asyncagents.domain.call import Call, Completed, Failed, Result, Settled
from asyncagents.domain.control import Snapshot
from asyncagents.domain.failure import Failure
from asyncagents.domain.id import SessionId
from asyncagents.engine.run import Run
from asyncagents.engine.tool import Ended, Together
from asyncagents.llm.model import FromModel, Request, StepFinish
from asyncagents.store.store import Store

Trace: TypeAlias = str
"""Where something stands in a trace, as the W3C writes it: a `traceparent`."""
Edge: TypeAlias = Literal["run", "call", "tool", "sweep", "courier", "title"]
"""Where an exception ends that no code before it was written for, so that other work goes on."""


class Seen(Protocol):
    """Something under way; what it did is over when its block ends, with an exception or without."""

    @property
    def trace(self) -> Trace | None:
        """Where it stands; None: nobody traces it."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


class SeenModel(Seen, Protocol):
    def ended(
        self, finish: StepFinish | None, failure: Failure | None, said: Callable[[], FromModel]
    ) -> None:
        """How the provider says that it ended; `said` is for who keeps texts."""
        ...


class SeenTool(Seen, Protocol):
    def ended(self, outcome: Ended) -> None: ...


class Watch(Protocol):
    @property
    def tracing(self) -> bool:
        """Whether it wants to know where things stand."""
        ...

    def caller(self) -> Trace | None:
        """Where whoever calls us stands."""
        ...

    def under(self, trace: str) -> AbstractContextManager[object]:
        """Whoever calls in this block stands there. Empty: where he stands anyway; nonsense: nowhere."""
        ...

    def run(self, run: Run, snapshot: Snapshot) -> Seen:
        """A session was claimed; its run is over when it has parked or rests, as `run.outcome` says."""
        ...

    def model(self, request: Request, session_id: SessionId, agent: str) -> SeenModel: ...

    def tool(self, call: Call) -> SeenTool: ...

    def refused(self, call: Call) -> None:
        """A call that never ran: there is no such tool, its arguments do not fit, or a rule forbids it."""
        ...

    def settled(self, call: Call, trace: Trace | None, began: int) -> None:
        """A call has its result from outside; `trace`: where its session stands, `began`: when it came."""
        ...

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        """Hear of an exception that reached an edge, where it is logged and goes no further.

        One exception may be reported twice: a call that cannot be written down ends its run.
        """
        ...


class _Nothing:
    """The same for everything: nothing is made for what nobody looks at."""

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
    """Tells of a call that somebody settled since then, unless he only repeats what was told before."""
    if isinstance(call.state, Settled) and call.state.at >= began:
        watch.settled(call, await store.trace(call.session_id) if watch.tracing else None, began)
    return call


def result_in(outcome: Ended) -> Result | None:
    """None: it waits from here on."""
    match outcome:
        case Completed() | Failed():
            return outcome
        case Together(Completed() | Failed() as result):
            return result
        case _:
            return None
