"""Spans of `with` blocks: started on entry, current inside, ended on exit."""

import logging
from contextvars import Token
from types import TracebackType
from typing import Self

from msgspec import Struct
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.failure import APIError, Failure, failure_name
from asyncagents.telemetry.trace_context import traceparent_of

Attributes = dict[str, AttributeValue]
_log = logging.getLogger(__name__)


class SpanPlan(Struct, frozen=True, kw_only=True):
    """The arguments to start a span; without `parent` the current context is used."""

    name: str
    attributes: Attributes
    kind: SpanKind = SpanKind.INTERNAL
    parent: Context | None = None
    links: tuple[Link, ...] = ()
    start: int | None = None
    """Start time in ms since the epoch; None: now."""


def start_span(tracer: Tracer, plan: SpanPlan) -> Span:
    """Start a span; if a sampler or processor of the program raises, log it and return an invalid span."""
    start = None if plan.start is None else plan.start * 1_000_000
    try:
        return tracer.start_span(plan.name, plan.parent, plan.kind, plan.attributes, plan.links, start)
    except Exception:  # noqa: BLE001  the edge of the program's telemetry
        _log.exception("span=%s action=start failed", plan.name)
        return INVALID_SPAN


def end_span(span: Span) -> None:
    try:
        span.end()
    except Exception:  # noqa: BLE001  the edge of the program's telemetry
        _log.exception("span action=end failed")


class TracedBlock:
    """A `with` block that has its own span."""

    def __init__(self, tracer: Tracer, clock: Clock, plan: SpanPlan) -> None:
        self._tracer = tracer
        self._clock = clock
        self._plan = plan
        self._began = 0
        self._error = ""
        self._span: Span | None = None
        self._token: Token[Context] | None = None

    @property
    def trace(self) -> str | None:
        return traceparent_of(self._span) if self._span is not None else None

    def __enter__(self) -> Self:
        self._began = self._clock.now()
        plan = self._plan
        around = plan.parent if plan.parent is not None else get_current()
        self._span = start_span(self._tracer, plan)
        is_one = self._span is not INVALID_SPAN
        self._token = attach(set_span_in_context(self._span, around) if is_one else around)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._span is not None and self._token is not None, "the block was not entered"
        detach(self._token)
        if isinstance(error, Exception):
            self.fail(type(error).__name__)
        self.on_end(max(0, self._clock.now() - self._began) / 1000, cut=error is not None)
        end_span(self._span)

    def on_end(self, seconds: float, *, cut: bool) -> None:
        """Record results just before the span ends. `cut`: the block ended by an exception."""

    def note(self, attributes: Attributes) -> None:
        assert self._span is not None, "the block was not entered"
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        """Mark the span as failed, without the error message, which may contain parts of a prompt."""
        assert self._span is not None, "the block was not entered"
        self._error = error_type
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(Status(StatusCode.ERROR))

    def with_error(self, labels: dict[str, str]) -> dict[str, str]:
        return labels | {"error.type": self._error} if self._error else labels


def error_type(failure: Failure) -> str:
    """Return the provider's HTTP status, or else the class of the failure."""
    if isinstance(failure, APIError) and failure.data.status_code is not None:
        return str(failure.data.status_code)
    return failure_name(failure)
