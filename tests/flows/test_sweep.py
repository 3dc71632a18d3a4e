"""The sweep outlives any one row: the others expire, the runtime goes on, and the row is logged once."""

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents import Idle, Runtime, SessionIdle, WaitingAsync, call, say, wait_tool
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.domain.id import SessionId
from asyncagents.engine.expiry import POSTPONE_MS
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from tests.support.runtime import EventListener, open_sqlite_runtime
from tests.support.wait import PATIENCE, wait_until

HOUR = 3_600_000
SPOIL = """
UPDATE call SET body = json_set(CAST(body AS TEXT), '$.shown_pending', json('true')) WHERE session_id = :id;
UPDATE session SET info = json_remove(CAST(info AS TEXT), '$.agent', '$.model') WHERE id = :id;
"""


def spoil(data: Path, session_id: SessionId) -> None:
    """From here on the end of the session's call breaks an assertion of the store."""
    with closing(sqlite3.connect(data / "asyncagents.db")) as database, database:
        for statement in SPOIL.strip().splitlines():
            assert database.execute(statement, {"id": session_id}).rowcount == 1


async def until_put_off(runtime: Runtime) -> None:
    """A row that is put off tells nobody."""
    await wait_until(lambda: runtime.counters.stuck.counts)


@pytest.mark.spec("X-11")
async def test_a_row_that_breaks_an_assertion_neither_ends_the_sweep_nor_holds_up_other_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    model = ScriptedModel({"go": [[call("wait", seconds=3600)], [say("Going on.")]], "hey": [[say("Yes?")]]})
    setup = Setup(model=model, open_workplaces=fixed_tools([wait_tool(clock)]))
    async with asyncio.timeout(PATIENCE):
        async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
            bad, good = [await runtime.create_session(directory=tmp_path) for _ in range(2)]
            for each in (bad, good):
                await runtime.prompt(each.id, "go")
                assert isinstance(await runtime.status(each.id), WaitingAsync)
        spoil(tmp_path, bad.id)
        clock.advance(HOUR)
        for _ in range(2):
            async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
                with inside(runtime).bus.subscribe() as subscription:
                    if await runtime.status(good.id) != Idle():
                        await EventListener(subscription).until(
                            SessionIdle, lambda event: event.session_id == good.id
                        )
                await until_put_off(runtime)
                await inside(runtime).dispatcher.sweep()
                assert (await runtime.prompt(good.id, "hey")).text == "Yes?"
                assert runtime.counters.stuck.counts == {("call",): 1}
            clock.advance(POSTPONE_MS)
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert len(errors) == 2, "once for the row in each of the two processes"
    assert "is due and cannot be expired: AssertionError" in errors[0].getMessage()


async def test_a_row_that_is_postponed_repeatedly_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    model = ScriptedModel({"go": [[call("wait", seconds=3600)], [say("Going on.")]]})
    setup = Setup(model=model, open_workplaces=fixed_tools([wait_tool(clock)]), serve=False)
    async with asyncio.timeout(PATIENCE), open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        runtime.serve_tree(session.id)
        await runtime.prompt(session.id, "go")
        await inside(runtime).dispatcher.stop()
        spoil(tmp_path, session.id)
        for _ in range(3):
            clock.advance(POSTPONE_MS)
            await inside(runtime).dispatcher.sweep()
    assert runtime.counters.stuck.counts[("call",)] >= 3  # another look of its own may come in between
    assert len([each for each in caplog.records if each.levelno >= logging.ERROR]) == 1
