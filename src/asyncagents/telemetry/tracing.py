"""Traces and metrics by the GenAI conventions, for the OpenTelemetry SDK that the program has set up."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry.context import attach, detach
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, TracerProvider, get_tracer

from asyncagents.domain.call.call import Call, Completed, Failed, Settled
from asyncagents.domain.control import Snapshot
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import SessionId
from asyncagents.domain.port import Clock
from asyncagents.engine.observer import Edge, Seen, SeenModel, SeenTool, Trace, result_in
from asyncagents.engine.run import Run
from asyncagents.engine.runtime.runtime import VERSION
from asyncagents.engine.tool import Ended
from asyncagents.llm.model import FromModel, Options, Request, StepFinish
from asyncagents.telemetry import content
from asyncagents.telemetry.metrics import Measures, input_tokens, output_tokens
from asyncagents.telemetry.span import Attributes, Plan, Traced, begun, error_type, finish
from asyncagents.telemetry.trace_context import context_at, here, links_here

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


class Tracing:
    """The observer for OpenTelemetry; `content` includes texts of prompts, answers, arguments and results."""

    tracing = True

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
        self._measures = Measures(meters)

    def caller(self) -> Trace | None:
        return here()

    def under(self, trace: str) -> AbstractContextManager[object]:
        return _under(trace) if trace else nullcontext()

    def run(self, run: Run, snapshot: Snapshot) -> Seen:
        return _TracedRun(self, self._plan_run(snapshot), run)

    def _plan_run(self, snapshot: Snapshot) -> Plan:
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
        parent = context_at(snapshot.control.trace)
        return Plan(name=f"invoke_agent {agent}".rstrip(), attributes=attributes, parent=parent)

    def model(self, request: Request, session_id: SessionId, agent: str) -> SeenModel:
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": session_id,
            "gen_ai.agent.name": agent,
            "gen_ai.request.stream": True,
            **model_attributes(request.model),
            **_options(request.options),
        }
        if self._content:
            attributes |= content.asked(request)
        name = f"chat {request.model.model_id}"
        return _TracedModel(self, Plan(name=name, attributes=attributes, kind=SpanKind.CLIENT), request)

    def tool(self, call: Call) -> SeenTool:
        attributes: Attributes = {"gen_ai.operation.name": "execute_tool", **_call_attributes(call)}
        if self._content:
            attributes |= content.arguments(call.input)
        return _TracedTool(self, Plan(name=f"execute_tool {call.tool}", attributes=attributes), call)

    def refused(self, call: Call) -> None:
        """Record nothing: the call did not run."""

    def settled(self, call: Call, trace: Trace | None, began: int) -> None:
        attributes: Attributes = _call_attributes(call)
        result = call.state.result if isinstance(call.state, Settled) else None
        attributes["asyncagents.result"] = "completed" if isinstance(result, Completed) else "failed"
        if self._content and result is not None:
            attributes |= content.result(_said(result))
        plan = Plan(
            name=f"tool_result {call.tool}",
            attributes=attributes,
            kind=SpanKind.CONSUMER,
            parent=context_at(trace),
            links=links_here(),
            start=began,
        )
        finish(begun(self._tracer, plan))

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        """Record nothing: the spans of the failed block end with the error."""


@contextmanager
def _under(trace: str) -> Iterator[None]:
    token = attach(context_at(trace))
    try:
        yield
    finally:
        detach(token)


class _TracedRun(Traced):
    def __init__(self, tracing: Tracing, plan: Plan, run: Run) -> None:
        super().__init__(tracing._tracer, tracing._clock, plan)
        self._measures = tracing._measures
        self._agent = str(plan.attributes.get("gen_ai.agent.name", ""))
        self._run = run

    def over(self, seconds: float, *, cut: bool) -> None:
        outcome = self._run.outcome or "interrupted"
        self.note({"asyncagents.run.outcome": outcome})
        if outcome in ("error", "crash_loop"):
            self.fail(outcome)
        self._measures.agent(seconds, self.failed({"gen_ai.agent.name": self._agent} if self._agent else {}))


class _TracedModel(Traced):
    def __init__(self, tracing: Tracing, plan: Plan, request: Request) -> None:
        super().__init__(tracing._tracer, tracing._clock, plan)
        self._measures = tracing._measures
        self._content = tracing._content
        self._labels = {"gen_ai.operation.name": "chat", **model_attributes(request.model)}

    def ended(
        self, finish: StepFinish | None, failure: Failure | None, said: Callable[[], FromModel]
    ) -> None:
        if failure is not None:
            self.fail(error_type(failure))
        if finish is not None:
            self.note({"gen_ai.response.finish_reasons": [finish.finish]})
            if finish.tokens is not None:
                self.note(_usage(finish.tokens))
                self._measures.usage(finish.tokens, self._labels)
        if self._content:
            self.note({**content.answered(said(), finish.finish if finish else "error")})

    def over(self, seconds: float, *, cut: bool) -> None:
        self._measures.operation(seconds, self.failed(self._labels))


class _TracedTool(Traced):
    def __init__(self, tracing: Tracing, plan: Plan, call: Call) -> None:
        super().__init__(tracing._tracer, tracing._clock, plan)
        self._measures = tracing._measures
        self._content = tracing._content
        self._labels = {"gen_ai.tool.name": call.tool, "gen_ai.tool.type": "function"}

    def ended(self, outcome: Ended) -> None:
        result = result_in(outcome)
        if result is None:
            self.note({"asyncagents.waits": True})
            return
        if isinstance(result, Failed):
            self.fail("tool_error")
        if self._content:
            self.note({**content.result(_said(result))})

    def over(self, seconds: float, *, cut: bool) -> None:
        self._measures.tool(seconds, self.failed(self._labels))


def model_attributes(model: ModelRef) -> dict[str, str]:
    return {
        "gen_ai.provider.name": _PROVIDERS.get(model.provider_id, model.provider_id),
        "gen_ai.request.model": model.model_id,
    }


def _options(options: Options) -> Attributes:
    given = {
        "gen_ai.request.temperature": options.temperature,
        "gen_ai.request.top_p": options.top_p,
        "gen_ai.request.max_tokens": options.max_output,
    }
    return {name: value for name, value in given.items() if value is not None}


def _usage(tokens: Tokens) -> Attributes:
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


def _said(result: Completed | Failed) -> str:
    return result.output if isinstance(result, Completed) else result.error
