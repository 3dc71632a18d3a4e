"""`/metrics` as Prometheus reads it, and `/ready`: numbers of the store and of this process."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from asyncagents.domain.id import CallId
from asyncagents.engine.metrics import BUCKET_BOUNDS, MAX_LABELS, OTHER, Counters
from asyncagents.errors import StoreError
from asyncagents.llm.scripted import ScriptedModel, call, fail, say
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from tests.support.delegation import launch_task, wait_until_quiet
from tests.support.http.server import serve_delegation, serve_runtime
from tests.support.runtime import open_runtime
from tests.support.telemetry import Collector, open_traced_runtime, scrape_metrics, trace_id
from tests.support.tool import ECHO, build_pending_tool
from tests.support.wait import PATIENCE
from tests.support.webhook.delivery import SCRIPT, WaitingService, result_body

THEIRS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_metrics_count_the_rows_of_the_store_and_the_work_of_the_process(tmp_path: Path) -> None:
    scenes = {
        "go": [
            [launch_task("A", "a"), launch_task("B", "b"), call("echo", text="x"), call("nosuch")],
            [call("job")],
            [say("Waiting.")],
        ],
        "b": [[fail("no", status=401)]],
    }
    async with serve_delegation(tmp_path, scenes, ECHO, build_pending_tool("job")) as at:
        before = await scrape_metrics(at)
        await at.stage.prompt("go")
        await wait_until_quiet(at.runtime, at.stage.session_id)
        after = await scrape_metrics(at)
        await at.get("/no/such/route/1")
        await at.get("/no/such/route/2")
        await at.get("/v1/tasks/one")
        await at.get("/v1/tasks/two")
        last = await scrape_metrics(at)
        await at.runtime.abort(at.stage.session_id)

    assert before["sessions"] == 1
    assert before['tasks{status="completed"}'] == 0
    assert after["sessions"] == 3
    assert after['tasks{status="completed"}'] == 1
    assert after['tasks{status="error"}'] == 1
    assert after['sessions_active{state="running"}'] == after['sessions_active{state="ready"}'] == 0
    assert after['turns_total{outcome="error"}'] == 1
    assert after['tool_calls_total{tool="echo",outcome="completed"}'] == 1
    assert after['tool_calls_total{tool="nosuch",outcome="refused"}'] == 1
    assert after['model_requests_total{model="scripted/scripted",outcome="error"}'] == 1
    assert after['model_requests_total{model="scripted/scripted",outcome="stop"}'] >= 2
    assert after['tokens_total{model="scripted/scripted",kind="output"}'] > 0
    assert after['run_seconds_bucket{le="+Inf"}'] == after["run_seconds_count"] >= 3
    assert after['tool_call_seconds_count{tool="echo"}'] == 1
    assert after["store_bytes"] > 10_000
    assert after["overdue_seconds"] == 0
    assert after['http_requests_total{route="GET /metrics",status="200"}'] == 1
    assert last['http_requests_total{route="none",status="404"}'] == 2
    assert last['http_requests_total{route="GET /v1/tasks/{id}",status="404"}'] == 2


async def test_results_from_outside_and_owed_webhooks_are_counted(tmp_path: Path) -> None:
    service = WaitingService()
    async with serve_delegation(tmp_path, SCRIPT, service.tool) as at:
        await at.stage.prompt("ship")
        waiting = await scrape_metrics(at)
        await at.runtime.complete(CallId(service.calls[0][0]), "up")
        await wait_until_quiet(at.runtime, at.stage.session_id)
        settled = await scrape_metrics(at)
    assert waiting['pending_calls{status="waiting"}'] == 1
    assert waiting['tool_calls_total{tool="deploy",outcome="waiting"}'] == 1
    assert settled['pending_calls{status="waiting"}'] == 0
    assert settled['pending_calls{status="completed"}'] == 1
    assert settled['results_total{tool="deploy",outcome="completed"}'] == 1
    assert settled['deliveries{state="owed"}'] == 0
    assert settled['deliveries{state="dead"}'] == 0


async def test_open_event_streams_are_counted(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, {}) as at:
        before = await scrape_metrics(at)
        async with at.stream() as stream:
            await stream.next()
            during = await scrape_metrics(at)
    assert before["event_streams"] == 0
    assert during["event_streams"] == 1


HOSTILE = 'a"} 1\nasyncagents_sessions 666\n# \\'


async def test_a_tool_that_a_model_invents_cannot_forge_a_sample(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, {"go": [[call(HOSTILE)], [say("Well.")]]}) as at:
        await at.stage.prompt("go")
        samples = await scrape_metrics(at)
    assert samples["sessions"] == 1
    assert [name for name in samples if "666" in name and name.startswith("tool_calls_total")]


def test_labels_of_invented_tools_are_bounded() -> None:
    counters = Counters(FakeClock())
    for number in range(10 * MAX_LABELS):
        counters.calls.add(counters._tools.label_for(f"tool {number}"), "refused")
    assert len(counters.calls.counts) == MAX_LABELS + 1
    assert counters.calls.counts[OTHER, "refused"] == 9 * MAX_LABELS


def test_each_duration_is_counted_in_the_bucket_of_its_bound() -> None:
    counters = Counters(FakeClock())
    for seconds in (0.0, BUCKET_BOUNDS[0], BUCKET_BOUNDS[0] + 0.001, BUCKET_BOUNDS[-1] + 1):
        counters.response_seconds.add("", seconds)
    buckets = counters.response_seconds.buckets[""]
    assert buckets[0] == 2
    assert buckets[1] == 1
    assert buckets[-1] == 1
    assert sum(buckets) == 4


async def test_ready_gives_a_short_reason_when_it_is_503(tmp_path: Path) -> None:
    async with (
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime,
        serve_runtime(runtime, tmp_path) as caller,
    ):
        idle = await caller.get("/ready")
        runtime.serve_tree((await runtime.create_session(directory=tmp_path)).id)
        working = await caller.get("/ready")
        inside(runtime).dispatcher.trouble = StoreError(f"the database {tmp_path} could not be written")
        troubled = await caller.get("/ready")
    assert [each.status for each in (idle, working, troubled)] == [503, 200, 503]
    assert working.json == {"status": "ready"}
    assert "only reads" in idle.json["data"]["message"]
    assert "the log says why" in troubled.json["data"]["message"]
    assert str(tmp_path) not in troubled.body.decode()


async def test_an_unreadable_session_does_not_affect_readiness_or_other_sessions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who sends requests here goes on doing so, and who looks at another session is not told of it."""
    async with serve_delegation(tmp_path, {"hi": [[say("Hello.")]]}) as at:
        await at.stage.prompt("hi")
        with closing(sqlite3.connect(tmp_path / "asyncagents.db")) as other, other:
            other.execute("UPDATE part SET body = '{' WHERE session_id = ?", (at.stage.session_id,))
        good = await at.runtime.create_session(directory=tmp_path)
        await at.runtime.send(at.stage.session_id, "hi")
        async with asyncio.timeout(PATIENCE):
            while "action=run dropped" not in caplog.text:
                await at.runtime.status(good.id)
        ready = await at.get("/ready")
        state = await at.request("GET", f"/v1/sessions/{good.id}", headers=at.authorization)
        await at.runtime.delete_session(at.stage.session_id)
    assert ready.status == state.status == 200
    assert state.json.get("trouble") is None


async def test_metrics_need_a_local_caller_or_the_token_and_ready_does_not(tmp_path: Path) -> None:
    foreign = {"origin": "https://evil.example"}
    async with serve_delegation(tmp_path, {}) as at:
        told = [
            (await at.request("GET", path, headers=headers)).status
            for path in ("/metrics", "/ready")
            for headers in ({}, foreign, foreign | at.authorization)
        ]
        refused = await at.request("POST", "/metrics")
    assert told == [200, 401, 200, 200, 200, 200]
    assert refused.status == 405


@pytest.mark.spec("X-08")
async def test_a_result_that_comes_by_http_with_a_traceparent_is_linked_to_it(tmp_path: Path) -> None:
    collector, service = Collector(), WaitingService()
    async with open_traced_runtime(tmp_path, SCRIPT, collector, service.tool) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "ship")
        async with serve_runtime(runtime, tmp_path) as caller:
            headers = caller.authorization | {"traceparent": THEIRS, "content-type": "application/json"}
            body = result_body(service.calls[0][0])
            told = await caller.request("POST", "/async-tool/result", headers=headers, data=body)
            assert told.status == 200, told
            await wait_until_quiet(runtime, session.id)
    result: ReadableSpan = collector.find_span("tool_result deploy")
    assert [f"{link.context.trace_id:032x}" for link in result.links] == [THEIRS[3:35]]
    assert len({span.context.trace_id for span in collector.spans}) == 1


@pytest.mark.spec("X-08")
async def test_a_prompt_that_comes_by_http_with_a_traceparent_is_answered_under_it(tmp_path: Path) -> None:
    collector = Collector()
    async with (
        open_traced_runtime(tmp_path, {}, collector) as runtime,
        serve_runtime(runtime, tmp_path) as caller,
    ):
        session = await runtime.create_session(directory=tmp_path)
        path, body = f"/session/{session.id}/message", {"parts": [{"type": "text", "text": "hello"}]}
        for trace in (THEIRS, "nonsense", "", f"{THEIRS}-and-more"):
            told = await caller.request(
                "POST", path, headers=caller.authorization | {"traceparent": trace}, body=body
            )
            assert told.status == 200, told
    under, *own = collector.find_spans("invoke_agent build")
    assert (under.parent is not None) is True
    assert trace_id(under) == THEIRS[3:35]
    assert [span.parent for span in own] == [None] * 3
