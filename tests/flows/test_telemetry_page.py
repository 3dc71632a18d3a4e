"""docs/telemetry.md: its program runs, its tables leave nothing out; and what is off costs nothing."""

import re
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from opentelemetry import trace

from asyncagents import ScriptedModel, TelemetryConfig, say
from asyncagents.engine.observer import NOOP_OBSERVER
from asyncagents.llm.scripted import call
from asyncagents.testing.inside import inside
from tests.support.http.server import serve_delegation
from tests.support.page import code_blocks
from tests.support.path import DOCS
from tests.support.runtime import open_runtime
from tests.support.telemetry import Collector, open_traced_runtime, span_attributes
from tests.support.tool import ECHO

PAGE = (DOCS / "telemetry.md").read_text(encoding="utf-8")
(PROGRAM,) = code_blocks("telemetry.md")


def ran(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.spec("X-08")
def test_the_program_of_the_page_prints_the_output_of_the_page(tmp_path: Path) -> None:
    (shown,) = code_blocks("telemetry.md", "text")
    done = ran(PROGRAM, tmp_path)
    assert done.stdout == shown
    assert done.stderr == ""
    assert done.returncode == 0


async def test_the_page_names_every_metric_of_the_server_and_no_other(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, {}) as at:
        text = (await at.get("/metrics")).body.decode()
    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    rows = re.findall(r"^\| `(asyncagents_\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert dict(rows) == types


async def test_the_page_names_every_attribute(tmp_path: Path) -> None:
    collector, script = Collector(), {"go": [[call("echo", text="x")], [say("Done.")]]}
    async with open_traced_runtime(tmp_path, script, collector, ECHO, content=True) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
    names = {name for span in collector.spans for name in span_attributes(span)}
    known = {"gen_ai.operation.name", "gen_ai.request.stream"}
    missing = {name for name in names - known if f"`{name}`" not in PAGE}
    assert {name for name in missing if not name.startswith("gen_ai.usage.")} == set()


OFF = """
import asyncio, sys
from asyncagents import ScriptedModel, open_runtime

async def main() -> None:
    async with open_runtime("data", model=ScriptedModel({}), telemetry=%s) as runtime:
        session = await runtime.create_session()
        print((await runtime.prompt(session.id, "hello")).text)

%s
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry") and sys.modules[name]])
"""
WITHOUT = 'sys.modules["opentelemetry"] = None'


def test_nothing_of_opentelemetry_is_imported_while_it_is_off(tmp_path: Path) -> None:
    done = ran(OFF % (None, ""), tmp_path)
    assert done.stdout == "ok\n[]\n"
    assert done.stderr == ""


def test_telemetry_without_its_extra_is_an_error_only_when_it_is_on(tmp_path: Path) -> None:
    off, on = ran(OFF % (False, WITHOUT), tmp_path), ran(OFF % (True, WITHOUT), tmp_path)
    assert off.stdout == "ok\n[]\n"
    assert "pip install 'asyncagents[telemetry]'" in on.stderr.splitlines()[-1]
    assert "ConfigError" in on.stderr.splitlines()[-1]


async def test_a_span_of_the_program_is_not_stored_while_telemetry_is_off(tmp_path: Path) -> None:
    collector = Collector()
    async with open_traced_runtime(tmp_path, {}, None) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        with collector.tracer.start_as_current_span("handle request"):
            assert trace.get_current_span().get_span_context().is_valid
            await runtime.prompt(session.id, "hello")
        assert await inside(runtime).store.trace(session.id) is None
    assert [span.name for span in collector.spans] == ["handle request"]


async def test_telemetry_without_an_sdk_records_nothing(tmp_path: Path) -> None:
    async with open_runtime(
        tmp_path, model=ScriptedModel({}), telemetry=TelemetryConfig(enabled=True)
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        assert (await runtime.prompt(session.id, "hello")).text == "ok"
        assert await inside(runtime).store.trace(session.id) is None


async def calls_made(folder: Path, chunks: int, collector: Collector | None) -> int:
    """How many functions of what watches are called for one turn."""
    count = 0

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        path = frame.f_code.co_filename
        count += event == "call" and (
            "/engine/observer" in path or "/engine/metrics" in path or "/telemetry/" in path
        )

    async with open_traced_runtime(folder, {"go": [[say(*(["word "] * chunks))]]}, collector) as runtime:
        session = await runtime.create_session(directory=folder)
        sys.setprofile(seen)
        try:
            await runtime.prompt(session.id, "go")
        finally:
            sys.setprofile(None)
    return count


async def test_the_cost_of_observing_a_turn_does_not_grow_with_its_stream(tmp_path: Path) -> None:
    few, many = [await calls_made(tmp_path / str(size), size, None) for size in (1, 500)]
    assert 0 < few == many < 60
    few, many = [await calls_made(tmp_path / f"on {size}", size, Collector()) for size in (1, 500)]
    assert few == many


def test_the_noop_observer_reuses_one_object_for_all_spans() -> None:
    unused: Any = None
    made = [
        NOOP_OBSERVER.run_span(unused, unused),
        NOOP_OBSERVER.model_span(unused, unused, ""),
        NOOP_OBSERVER.tool_span(unused),
    ]
    with made[0] as inside:
        assert all(each is inside for each in made)
    assert NOOP_OBSERVER.use_parent("00-1-1-01") is NOOP_OBSERVER.use_parent("")
