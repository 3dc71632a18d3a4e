"""Convert between stored W3C traceparents and OpenTelemetry contexts."""

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()
_NAME = "traceparent"


def context_from(traceparent: str | None) -> Context:
    """Return a context with only the traceparent; an invalid traceparent begins a new trace."""
    return _propagator.extract({_NAME: traceparent} if traceparent else {}, Context())


def traceparent_of(span: Span) -> str | None:
    """Return the traceparent of a span; None for an invalid span, as without an SDK."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, set_span_in_context(span, Context()))
    return carrier.get(_NAME)


def current_traceparent() -> str | None:
    return traceparent_of(get_current_span())


def caller_links() -> tuple[Link, ...]:
    """Return a link to the caller's span, which belongs to another trace; empty without one."""
    caller = get_current_span().get_span_context()
    return (Link(caller),) if caller.is_valid else ()
