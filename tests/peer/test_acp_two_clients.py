"""Two clients of `asyncagents acp` show one session at the same time."""

from pathlib import Path

import pytest

from tests.support.acp.client import ALLOW, hold
from tests.support.acp.schema import load_schema
from tests.support.acp.stage import open_acp_stage
from tests.support.process.npm import SECONDS

pytestmark = pytest.mark.timeout(SECONDS + 60)
FINISHED = "It all worked well."


@pytest.mark.spec("X-03", "A-04")
async def test_a_client_that_attaches_in_the_middle_answers_for_both(tmp_path: Path) -> None:
    async with open_acp_stage(tmp_path, await load_schema()) as stage:
        async with stage.open_client(hold) as first, stage.open_client(hold) as second:
            await first.initialize()
            session_id = await first.new_session(stage.project)
            prompted = first.post_prompt(session_id, "work")
            asked = await first.next_ask()
            await second.initialize()
            place = {"cwd": str(stage.project), "mcpServers": []}
            await second.request("session/load", sessionId=session_id, **place)
            ask = await second.next_ask()
            second.answer(ask, ALLOW(ask) or {})
            assert await prompted == {"stopReason": "end_turn"}
            await second.until_text(session_id, FINISHED)
            await second.until_idle(session_id)
            assert first.withdrawn == [asked["id"]]
            assert first.text(session_id) == second.text(session_id) == FINISHED
            assert first.plan(session_id) == second.plan(session_id)
            assert first.calls(session_id) == second.calls(session_id)
            assert second.text(session_id, "user_message_chunk") == "work"
        assert stage.lines_run() == ["asked first"]
