"""Sees every exception that reaches an edge of a process: one that the simulation did not raise is a bug."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.id import SessionId
from asyncagents.engine.observer import Edge, ModelSpan, NoopObserver
from asyncagents.errors import AsyncAgentsError
from asyncagents.llm.model import ChatRequest, ModelTurn, StepFinish


class Injected(Exception):
    """Marks an exception that a player raises on purpose; a disk that fails becomes a `StoreError`."""


class HungUp(Injected, ConnectionResetError):
    """A provider breaks its stream off."""


class Boom(Injected, RuntimeError):
    """A tool fails."""


def faults_in(error: BaseException) -> list[BaseException]:
    """List what is neither ours, nor injected, nor a cancel; of a group, all that it holds."""
    if isinstance(error, BaseExceptionGroup):
        return [fault for each in error.exceptions for fault in faults_in(each)]
    legal = not isinstance(error, Exception) or isinstance(error, AsyncAgentsError | Injected)
    return [] if legal else [error]


class FaultWatch(NoopObserver):
    """Watches one process; `report` is told where a fault ended, and what it was."""

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._report = report

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        for fault in faults_in(error):
            self._report(edge, fault)

    def model_span(self, request: ChatRequest, session_id: SessionId, agent: str) -> ModelSpan:
        return _WatchedStream(self._report)


class _WatchedStream:
    """Sees what ends the reading of an answer: the engine takes it for a failure of the provider."""

    trace: str | None = None

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._report = report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for fault in faults_in(error) if error is not None else ():
            self._report("model", fault)

    def record_outcome(
        self, finish: StepFinish | None, failure: Failure | None, said: Callable[[], ModelTurn]
    ) -> None: ...
