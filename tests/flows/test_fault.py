"""An exception that nothing is prepared for: it is counted where it ends, and all else goes on."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents import Completed, Tool, ToolContext
from asyncagents.app.assemble import Setup
from asyncagents.domain.conversation.status import Retry
from asyncagents.domain.event import SessionIdle, SessionStatus
from asyncagents.domain.session_state import RestReason, Snapshot
from asyncagents.engine.observer import Edge, NoopObserver
from asyncagents.engine.runner import RestVerdict
from asyncagents.engine.tool import Outcome
from asyncagents.errors import ToolError
from asyncagents.llm.scripted import ScriptedModel, call, fail, say
from tests.support.http.server import serve_delegation
from tests.support.runtime import open_sqlite_runtime, open_stage
from tests.support.telemetry import scrape_metrics
from tests.support.tool import NoArguments
from tests.support.wait import PATIENCE


async def _broken(args: NoArguments, context: ToolContext) -> Outcome:
    raise ZeroDivisionError("a bug of a tool")


async def _refusing(args: NoArguments, context: ToolContext) -> Outcome:
    raise ToolError("not today")


async def _good(args: NoArguments, context: ToolContext) -> Outcome:
    return Completed("done")


TOOLS = (
    Tool("broken", NoArguments, _broken),
    Tool("refusing", NoArguments, _refusing),
    Tool("good", NoArguments, _good),
)


@pytest.mark.spec("X-11")
async def test_a_bug_of_a_tool_is_counted_and_a_refusal_is_not(tmp_path: Path) -> None:
    script = {"go": [[call("broken"), call("refusing"), call("good")], [say("Well.")]]}
    async with serve_delegation(tmp_path, script, *TOOLS) as at:
        await at.stage.prompt("go")
        samples = await scrape_metrics(at)
    assert {name: value for name, value in samples.items() if name.startswith("faults")} == {
        'faults_total{edge="tool"}': 1
    }


@pytest.mark.spec("X-11")
async def test_a_run_that_fails_is_counted_and_tried_again(tmp_path: Path) -> None:
    asked: list[RestReason] = []

    async def hook(snapshot: Snapshot, reason: RestReason) -> RestVerdict:
        asked.append(reason)
        if len(asked) == 1:
            raise ZeroDivisionError("a bug of a hook")
        return ()

    async with open_stage(tmp_path, {"go": [[say("Done.")]]}, before_rest=hook) as at:
        await at.prompt("go")
        await at.listener.until(SessionIdle)
        counts = at.runtime.counters.faults.counts
    assert asked == ["done", "done"]
    assert counts == {("run",): 1}


@pytest.mark.spec("X-11")
async def test_a_row_that_breaks_the_sweep_ends_no_runtime(tmp_path: Path) -> None:
    """A request that waits for its next try; what it was thought to cost cannot be read."""
    script = {"go": [[fail("overloaded", retryable=True, retry_after=3600.0)]], "hello": [[say("Hello.")]]}
    async with open_stage(tmp_path, script) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until(SessionStatus, lambda event: isinstance(event.status, Retry))
    with closing(sqlite3.connect(tmp_path / "asyncagents.db")) as database, database:
        database.execute("UPDATE request SET next_at = 1, estimate = ? WHERE state = 'backoff'", (b"{no",))
    alarm = Alarm()
    setup = Setup(model=ScriptedModel(script), observer=alarm)
    async with open_sqlite_runtime(tmp_path, setup) as runtime, asyncio.timeout(PATIENCE):
        assert await alarm.heard.get() == ("sweep", "DecodeError")
        session = await runtime.create_session(directory=tmp_path)
        answer = await runtime.prompt(session.id, "hello")
    assert answer.text == "Hello."


class Alarm(NoopObserver):
    """Hears of faults."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def report_fault(self, edge: Edge, error: BaseException) -> None:
        self.heard.put_nowait((edge, type(error).__name__))
