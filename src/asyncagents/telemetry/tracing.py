"""Traces and metrics by the GenAI conventions, for the OpenTelemetry SDK that the program has set up."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry.context import attach, detach
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, TracerProvider, get_tracer

from asyncagents.domain.call.call import Call, Completed, Failed, Settled
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.observer import Edge, ModelSpan, ObserverSpan, ToolSpan, Trace, result_of
from asyncagents.engine.run import Run
from asyncagents.engine.tool import CallOutcome
from asyncagents.llm.model import ChatRequest, ModelTurn, Options, StepFinish
from asyncagents.telemetry import content
from asyncagents.telemetry.metrics import GenAiMetrics, input_tokens, output_tokens
from asyncagents.telemetry.span import Attributes, SpanPlan, TracedBlock, end_span, error_type, start_span
from asyncagents.telemetry.trace_context import caller_links, context_from, current_traceparent
from asyncagents.version import VERSION

_PROVIDERS = {
    "amazon-bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "xai": "x_ai",
}
"""Provider ids that have another name in the conventions."""


class OtelObserver:
    """The observer for OpenTelemetry; `content` includes texts of prompts, answers, arguments and results."""

    is_tracing = True

    def __init__(
        self,
        clock: Clock,
        *,
        content: bool = False,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
    ) -> None:
        self._clock = clock
        self._content = content
        self._tracer = get_tracer("asyncagents", VERSION, tracers)
        self._metrics = GenAiMetrics(meters)

    def caller_trace(self) -> Trace | None:
        return current_traceparent()

    def use_parent(self, trace: str) -> AbstractContextManager[object]:
        return _attach_context(trace) if trace else nullcontext()

    def run_span(self, run: Run, snapshot: Snapshot) -> ObserverSpan:
        return _TracedRun(self, self._plan_run(snapshot), run)

    def _plan_run(self, snapshot: Snapshot) -> SpanPlan:
        info = snapshot.info
        agent = (info.agent if info else None) or ""
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": snapshot.control.id,
            "asyncagents.turn": snapshot.control.turn + (not snapshot.control.in_turn),
        }
        if agent:
            attributes["gen_ai.agent.name"] = agent
        if snapshot.model is not None:
            attributes |= model_attributes(snapshot.model)
        parent = context_from(snapshot.control.trace)
        return SpanPlan(name=f"invoke_agent {agent}".rstrip(), attributes=attributes, parent=parent)

    def model_span(self, request: ChatRequest, session_id: SessionId, agent: str) -> ModelSpan:
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": session_id,
            "gen_ai.agent.name": agent,
            "gen_ai.request.stream": True,
            **model_attributes(request.model),
            **_option_attributes(request.options),
        }
        if self._content:
            attributes |= content.request_attributes(request)
        name = f"chat {request.model.model_id}"
        return _TracedModel(self, SpanPlan(name=name, attributes=attributes, kind=SpanKind.CLIENT), request)

    def tool_span(self, call: Call) -> ToolSpan:
        attributes: Attributes = {"gen_ai.operation.name": "execute_tool", **_call_attributes(call)}
        if self._content:
            attributes |= content.argument_attributes(call.input)
        return _TracedTool(self, SpanPlan(name=f"execute_tool {call.tool}", attributes=attributes), call)

    def report_refused(self, call: Call) -> None:
        """Record nothing: the call did not run."""

    def report_settled(self, call: Call, trace: Trace | None, began: int) -> None:
        attributes: Attributes = _call_attributes(call)
        result = call.state.result if isinstance(call.state, Settled) else None
        attributes["asyncagents.result"] = "completed" if isinstance(result, Completed) else "failed"
        if self._content and result is not None:
            attributes |= content.result_attributes(_result_text(result))
        plan = SpanPlan(
            name=f"tool_result {call.tool}",
            attributes=attributes,
            kind=SpanKind.CONSUMER,
            parent=context_from(trace),
            links=caller_links(),
            start=began,
        )
        end_span(start_span(self._tracer, plan))

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        """Record nothing: the spans of the failed block end with the error."""


@contextmanager
def _attach_context(trace: str) -> Iterator[None]:
    token = attach(context_from(trace))
    try:
        yield
    finally:
        detach(token)


class _TracedRun(TracedBlock):
    def __init__(self, observer: OtelObserver, plan: SpanPlan, run: Run) -> None:
        super().__init__(observer._tracer, observer._clock, plan)
        self._metrics = observer._metrics
        self._agent = str(plan.attributes.get("gen_ai.agent.name", ""))
        self._run = run

    def on_end(self, seconds: float, *, cut: bool) -> None:
        outcome = self._run.outcome or "interrupted"
        self.note({"asyncagents.run.outcome": outcome})
        if outcome in ("error", "crash_loop"):
            self.fail(outcome)
        self._metrics.record_agent(
            seconds, self.with_error({"gen_ai.agent.name": self._agent} if self._agent else {})
        )


class _TracedModel(TracedBlock):
    def __init__(self, observer: OtelObserver, plan: SpanPlan, request: ChatRequest) -> None:
        super().__init__(observer._tracer, observer._clock, plan)
        self._metrics = observer._metrics
        self._content = observer._content
        self._labels = {"gen_ai.operation.name": "chat", **model_attributes(request.model)}

    def record_outcome(
        self, finish: StepFinish | None, failure: Failure | None, build_turn: Callable[[], ModelTurn]
    ) -> None:
        if failure is not None:
            self.fail(error_type(failure))
        if finish is not None:
            self.note({"gen_ai.response.finish_reasons": [finish.finish]})
            if finish.tokens is not None:
                self.note(_usage_attributes(finish.tokens))
                self._metrics.record_usage(finish.tokens, self._labels)
        if self._content:
            self.note({**content.response_attributes(build_turn(), finish.finish if finish else "error")})

    def on_end(self, seconds: float, *, cut: bool) -> None:
        self._metrics.record_operation(seconds, self.with_error(self._labels))


class _TracedTool(TracedBlock):
    def __init__(self, observer: OtelObserver, plan: SpanPlan, call: Call) -> None:
        super().__init__(observer._tracer, observer._clock, plan)
        self._metrics = observer._metrics
        self._content = observer._content
        self._labels = {"gen_ai.tool.name": call.tool, "gen_ai.tool.type": "function"}

    def record_outcome(self, outcome: CallOutcome) -> None:
        result = result_of(outcome)
        if result is None:
            self.note({"asyncagents.waits": True})
            return
        if isinstance(result, Failed):
            self.fail("tool_error")
        if self._content:
            self.note({**content.result_attributes(_result_text(result))})

    def on_end(self, seconds: float, *, cut: bool) -> None:
        self._metrics.record_tool(seconds, self.with_error(self._labels))


def model_attributes(model: ModelRef) -> dict[str, str]:
    return {
        "gen_ai.provider.name": _PROVIDERS.get(model.provider_id, model.provider_id),
        "gen_ai.request.model": model.model_id,
    }


def _option_attributes(options: Options) -> Attributes:
    given = {
        "gen_ai.request.temperature": options.temperature,
        "gen_ai.request.top_p": options.top_p,
        "gen_ai.request.max_tokens": options.max_output,
    }
    return {name: value for name, value in given.items() if value is not None}


def _usage_attributes(tokens: Tokens) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": input_tokens(tokens),
        "gen_ai.usage.output_tokens": output_tokens(tokens),
        "gen_ai.usage.reasoning.output_tokens": tokens.reasoning,
        "gen_ai.usage.cache_read.input_tokens": tokens.cache.read,
        "gen_ai.usage.cache_creation.input_tokens": tokens.cache.write,
    }


def _call_attributes(call: Call) -> Attributes:
    return {
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.call_id,
        "asyncagents.call.id": call.id,
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": call.session_id,
        "gen_ai.agent.name": call.agent,
    }


def _result_text(result: Completed | Failed) -> str:
    return result.output if isinstance(result, Completed) else result.error
