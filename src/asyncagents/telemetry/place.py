"""Places in a trace, between what is stored (a W3C traceparent) and what OpenTelemetry works with."""

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()
_NAME = "traceparent"


def context_at(traceparent: str | None) -> Context:
    """Nothing of the context we are in counts. What is no traceparent is nowhere: a new trace begins."""
    return _propagator.extract({_NAME: traceparent} if traceparent else {}, Context())


def traceparent_of(span: Span) -> str | None:
    """None: the span is none, as without an SDK."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, set_span_in_context(span, Context()))
    return carrier.get(_NAME)


def here() -> str | None:
    return traceparent_of(get_current_span())


def links_here() -> tuple[Link, ...]:
    """To whoever calls us, who belongs to a trace of his own."""
    caller = get_current_span().get_span_context()
    return (Link(caller),) if caller.is_valid else ()
