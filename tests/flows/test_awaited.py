"""What a tree waits for outside, as whoever follows it is told: in the process, and over HTTP."""

from pathlib import Path

from asyncagents import Pending, async_tool
from asyncagents.app.assemble import Setup
from asyncagents.client.client import open_client
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.server.serve import ServerOptions, open_server
from asyncagents.testing.clock import FakeClock
from tests.support.runtime import open_runtime, open_sqlite_runtime
from tests.support.tool import CAREFUL


@async_tool(seconds=3600)
def deploy(version: str) -> Pending:
    """Bring a version to the servers."""
    return Pending(note=f"queued {version}")


async def test_a_client_lists_the_same_awaited_calls_as_the_runtime(tmp_path: Path) -> None:
    model = ScriptedModel(
        {"go": [[call("deploy", version="v2"), call("careful", text="hi")], [say("Done.")]]}
    )
    async with (
        open_runtime(tmp_path, model=model, tools=[deploy, CAREFUL]) as runtime,
        open_server(runtime, tmp_path, ServerOptions(port=0)),
        open_client(data=tmp_path) as client,
    ):
        before = await client.cursor()
        session, _ = await runtime.begin("go", directory=tmp_path)
        await runtime.wait_tree(session.id)
        inside = await runtime.tasks.list_awaited(session.id)
        outside = await client.tasks.list_awaited(session.id)
        [ask] = await client.tasks.list_awaited(session.id, asks=True)
        async with client.events(session.id, tree=True, after=before) as events:
            heard = await anext(events)

    assert outside == inside
    assert {each.tool: (each.note, each.ask_id is None) for each in outside} == {
        "deploy": ("queued v2", True),
        "careful": ("", False),
    }
    assert ask.permission is not None
    assert ask.tool == "careful"
    assert ask.input == {"text": "hi"}
    assert [each.id for each in ask.lineage] == [session.id]
    assert heard.session_id == session.id


async def test_a_session_whose_pool_another_process_serves_is_ready(tmp_path: Path) -> None:
    clock = FakeClock()
    setup = Setup(model=ScriptedModel({}), serve=False)
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        session, _ = await runtime.begin("go", directory=tmp_path)
        clock.advance(60_000)
        alone = await runtime.tasks.why(session.id)
        runtime.tasks.is_served_elsewhere = lambda pool: True
        beside = await runtime.tasks.why(session.id)

    assert alone.code == "no_worker"
    assert beside.code == "ready"
