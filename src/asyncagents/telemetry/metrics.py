"""The metrics of the GenAI conventions."""

from collections import defaultdict

from opentelemetry.metrics import Histogram, MeterProvider, get_meter

from asyncagents.domain.conversation.session import Tokens
from asyncagents.engine.metrics import LabelLimit
from asyncagents.version import VERSION

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_AGENT_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
_TOKENS = tuple(4**power for power in range(14))

Labels = dict[str, str]


class GenAiMetrics:
    """Histograms of the program's meter provider; without one nothing is recorded."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        self._names: defaultdict[str, LabelLimit] = defaultdict(LabelLimit)
        self._meter = get_meter("asyncagents", VERSION, provider)
        self._operation = self._seconds("gen_ai.client.operation.duration", "GenAI operation duration.")
        self._agent = self._seconds(
            "gen_ai.invoke_agent.duration", "How long a run of an agent took.", _AGENT_SECONDS
        )
        self._tool = self._seconds("gen_ai.execute_tool.duration", "How long a tool took.")
        self._usage = self._meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )

    def _seconds(self, name: str, description: str, bounds: tuple[float, ...] = _SECONDS) -> Histogram:
        return self._meter.create_histogram(
            name, unit="s", description=description, explicit_bucket_boundaries_advisory=bounds
        )

    def record_operation(self, seconds: float, labels: Labels) -> None:
        self._operation.record(seconds, self._limit_labels(labels))

    def record_agent(self, seconds: float, labels: Labels) -> None:
        self._agent.record(seconds, self._limit_labels(labels))

    def record_tool(self, seconds: float, labels: Labels) -> None:
        self._tool.record(seconds, self._limit_labels(labels))

    def record_usage(self, tokens: Tokens, labels: Labels) -> None:
        labels = self._limit_labels(labels)
        for kind, count in (("input", input_tokens(tokens)), ("output", output_tokens(tokens))):
            self._usage.record(max(0, count), labels | {"gen_ai.token.type": kind})

    def _limit_labels(self, labels: Labels) -> Labels:
        """Limit the number of label values: models may invent names of agents and tools."""
        return {name: self._names[name].label_for(value) for name, value in labels.items()}


def input_tokens(tokens: Tokens) -> int:
    """Return the input tokens, cached ones included, as the conventions count them."""
    return tokens.input + tokens.cache.read + tokens.cache.write


def output_tokens(tokens: Tokens) -> int:
    return tokens.output + tokens.reasoning
