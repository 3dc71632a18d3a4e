"""A client of `asyncagents acp` plays a session: plan, diff, permission, and turns that nobody prompted."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp.client import ALLOW, ProcessClient, hold
from tests.support.acp.schema import Frame, load_schema
from tests.support.acp.stage import AcpStage, open_acp_stage
from tests.support.process.npm import SECONDS
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(SECONDS + 120)
FINISHED = "It all worked well."


def ask_id(ask: Frame) -> str:
    return str(ask["params"]["toolCall"]["_meta"]["asyncagents"]["askId"])


async def begin(client: ProcessClient, stage: AcpStage, **capabilities: Any) -> str:
    await client.initialize(**capabilities)
    return await client.new_session(stage.project)


async def reopen(client: ProcessClient, stage: AcpStage, session_id: str, method: str) -> None:
    await client.initialize()
    await client.request(method, sessionId=session_id, cwd=str(stage.project), mcpServers=[])


def assert_work_is_shown(client: ProcessClient, stage: AcpStage, session_id: str) -> None:
    assert client.plan(session_id) == [("Look", "completed"), ("Leap", "completed")]
    written, run, *_ = client.calls(session_id).values()
    path = str(stage.project / "a.txt")
    assert written["content"] == [{"type": "diff", "path": path, "newText": "new\n"}]
    assert (written["kind"], written["status"]) == ("edit", "completed")
    assert (run["kind"], run["status"], run["title"]) == ("execute", "completed", "./note asked first")
    assert client.text(session_id).count(FINISHED) == 1
    assert client.text(session_id, "agent_thought_chunk") == "Let me see."


@pytest.mark.spec("X-03", "A-04", "O-04")
async def test_a_session_shows_plan_diff_permission_and_the_turn_of_a_notice(tmp_path: Path) -> None:
    async with open_acp_stage(tmp_path, await load_schema()) as stage, stage.open_client() as client:
        session_id = await begin(client, stage)
        assert await client.prompt(session_id, "work") == "end_turn"
        assert_work_is_shown(client, stage, session_id)
        assert await client.prompt(session_id, "launch") == "end_turn"
        assert len(client.asks) == 1
        stage.let_go()
        await client.until_text(session_id, "Counted.")
        await client.until_idle(session_id)
        assert len(client.asks) == 2
        assert stage.lines_run() == ["asked first", "counted", "asked later"]
        notice = client.text(session_id, "user_message_chunk")
        assert "Do count" in notice


@pytest.mark.soak
@pytest.mark.spec("X-03", "A-04")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_goes_on_after_kills_of_its_agent(tmp_path: Path, method: str) -> None:
    async with open_acp_stage(tmp_path, await load_schema()) as stage:
        async with stage.open_client(hold) as client:
            session_id = await begin(client, stage)
            client.post_prompt(session_id, "work")
            first = await client.next_ask()
            await client.kill()
        async with stage.open_client(hold) as client:
            await reopen(client, stage, session_id, method)
            again = await client.next_ask()
            assert ask_id(again) == ask_id(first)
            client.answer(again, ALLOW(again) or {})
            await client.until_text(session_id, FINISHED)
            await client.until_idle(session_id)
            assert await client.prompt(session_id, "launch") == "end_turn"
            await client.kill()
        async with stage.open_client(hold) as client:
            await reopen(client, stage, session_id, method)
            stage.let_go()
            late = await client.next_ask()
            await client.kill()
        async with stage.open_client() as client:
            await reopen(client, stage, session_id, method)
            assert ask_id(await client.next_ask()) == ask_id(late)
            await client.until_text(session_id, "Counted.")
            await client.until_idle(session_id)
            if method == "session/load":
                assert_work_is_shown(client, stage, session_id)
        assert stage.lines_run() == ["asked first", "counted", "asked later"]


@pytest.mark.soak
@pytest.mark.spec("X-03", "A-04")
async def test_a_session_goes_on_after_kills_of_the_server(tmp_path: Path) -> None:
    async with open_acp_stage(tmp_path, await load_schema()) as stage, stage.open_client(hold) as client:
        session_id = await begin(client, stage)
        prompted = client.post_prompt(session_id, "work")
        ask = await client.next_ask()
        assert await stage.kill_server()
        client.answer(ask, ALLOW(ask) or {})
        assert await prompted == {"stopReason": "end_turn"}
        assert_work_is_shown(client, stage, session_id)
        assert await client.prompt(session_id, "launch") == "end_turn"
        assert await stage.kill_server()
        stage.let_go()
        late = await client.next_ask(2)
        client.answer(late, ALLOW(late) or {})
        await client.until_text(session_id, "Counted.")
        await client.until_idle(session_id)
        assert client.text(session_id).count(FINISHED) == 1


async def close(client: ProcessClient) -> None:
    assert await client.close() == 0


@pytest.mark.soak
@pytest.mark.spec("X-03", "D-02")
@pytest.mark.parametrize("leave", [close, ProcessClient.kill, ProcessClient.kill_tree])
async def test_all_tasks_end_after_their_client_has_left_in_the_middle_of_a_fan_out(
    tmp_path: Path, leave: Callable[[ProcessClient], Awaitable[None]]
) -> None:
    async with open_acp_stage(tmp_path, await load_schema()) as stage:
        async with stage.open_client() as client:
            session_id = await begin(client, stage)
            assert await client.prompt(session_id, "fan out") == "end_turn"
            await leave(client)
        stage.let_go()
        await wait_until(lambda: len(stage.lines_run()) == 6, seconds=60)
        async with stage.open_client() as client:
            await reopen(client, stage, session_id, "session/load")
            await client.until_text(session_id, "All are done.")
            await client.until_idle(session_id)
        assert sorted(stage.lines_run()) == [f"part {number}" for number in range(6)]
