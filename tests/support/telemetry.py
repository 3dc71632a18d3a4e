"""A program that has set up OpenTelemetry, and what it was told."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock
from asyncagents.config.config import DelegationConfig
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.scripted import Script, ScriptedModel
from asyncagents.server.v1.metrics import CONTENT_TYPE
from asyncagents.telemetry.tracing import OtelObserver
from tests.support.delegation import allow_all
from tests.support.http.client import HttpClient
from tests.support.runtime import open_sqlite_runtime


class Collector:
    """It outlives runtimes, as a backend outlives processes."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracer = self.tracers.get_tracer("the program")

    def watch(self, *, content: bool = False) -> OtelObserver:
        return OtelObserver(SystemClock(), content=content, tracers=self.tracers, meters=self.meters)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Those that ended, in that order."""
        return self._exporter.get_finished_spans()

    def find_spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def find_span(self, name: str) -> ReadableSpan:
        (found,) = self.find_spans(name)
        return found

    def points(self, name: str) -> list[HistogramDataPoint]:
        data = self._reader.get_metrics_data()
        assert data is not None
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        found = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        points = [point for metric in found for point in metric.data.data_points]
        assert all(isinstance(point, HistogramDataPoint) for point in points)
        return [point for point in points if isinstance(point, HistogramDataPoint)]


@asynccontextmanager
async def open_traced_runtime(
    data: Path,
    script: Script | ScriptedModel,
    collector: Collector | None,
    *tools: AnyTool,
    content: bool = False,
) -> AsyncIterator[Runtime]:
    """A runtime where agents launch agents and nobody is asked; without a collector nobody traces it."""
    more: dict[str, Any] = {"observer": collector.watch(content=content)} if collector else {}
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    workplaces = fixed_tools(tools, allow_all, DelegationConfig())
    async with open_sqlite_runtime(data, Setup(model=model, open_workplaces=workplaces, **more)) as runtime:
        yield runtime


def trace_id(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}"


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def span_attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


METRIC_SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (?P<value>[-+0-9.e]+)'
)


async def scrape_metrics(caller: HttpClient) -> dict[str, float]:
    """Each line is a comment or a sample, no sample comes twice, and each has its type before it."""
    told = await caller.get("/metrics")
    assert told.status == 200
    assert told.headers["content-type"] == CONTENT_TYPE
    samples: dict[str, float] = {}
    types: set[str] = set()
    text = told.body.decode()
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("#"):
            types |= {line.split()[2]} if line.startswith("# TYPE") else set()
            continue
        found = METRIC_SAMPLE.fullmatch(line)
        assert found is not None, line
        assert types & {found["name"], re.sub("_(bucket|sum|count)$", "", found["name"])}, line
        key = line.rpartition(" ")[0].removeprefix("asyncagents_")
        assert key not in samples
        samples[key] = float(found["value"])
    return samples
