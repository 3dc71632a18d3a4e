"""Whatever a client of `asyncagents acp` sends, each request has one answer, and the agent goes on."""

from pathlib import Path

import pytest

from tests.support.acp.client import AcpClient
from tests.support.acp.disorder import Disorder
from tests.support.acp.schema import load_schema
from tests.support.acp.stage import open_acp_stage
from tests.support.process.npm import SECONDS
from tests.support.soak import some_of

pytestmark = pytest.mark.timeout(SECONDS + 240)
FRAMES = 150
PIECE = 10
"""So many frames are sent at once; then the client waits for an answer."""


async def end_all(client: AcpClient) -> None:
    """Cancel what runs; every request is answered then."""
    opened = {
        each.frame["result"]["sessionId"]
        for each in client.frames
        if each.sender == "agent" and "sessionId" in (each.frame.get("result") or ())
    }
    for session_id in opened:
        client.notify("session/cancel", sessionId=session_id)
    await client.until(lambda: not client.unanswered)


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("seed", some_of(range(30), 2))
async def test_a_client_in_disorder_gets_an_answer_to_every_request(tmp_path: Path, seed: int) -> None:
    async with open_acp_stage(tmp_path, await load_schema()) as stage:
        stage.let_go()
        async with stage.open_client() as client:
            disorder = Disorder(seed, client, str(stage.project))
            if seed % 3:
                await client.initialize()
                await client.new_session(stage.project)
            for _ in range(FRAMES // PIECE):
                for _ in range(PIECE):
                    disorder.send_next()
                await client.initialize()
            await end_all(client)
            wrong = [each for each in client.problems if each.startswith("agent:")]
            assert wrong == [], "\n".join(wrong)
            client.problems.clear()
            assert await client.close() == 0
            assert b"Traceback" not in client.errors, client.errors.decode()
