"""`asyncagents serve` without a model: it starts and shows history; what waits for a model waits."""

import asyncio
import json
from pathlib import Path

import pytest

from asyncagents.testing.provider import Reply
from tests.support.http.client import Response
from tests.support.process.command_line import Desk, open_desk, read_until, wait_for_exit
from tests.support.process.server import ServerProcess, open_server_process
from tests.support.wait import PATIENCE

SAID = {"parts": [{"type": "text", "text": "More"}]}
UNSET = "there is no model to ask: set a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY"


def forget_model(desk: Desk) -> None:
    (desk.project / "asyncagents.json").write_text("{}")


async def ask(server: ServerProcess, method: str, path: str, body: object = None) -> Response:
    return await server.client.request(method, path, body, headers=server.client.authorization)


@pytest.mark.spec("A-10")
async def test_serve_without_a_model_starts_with_a_warning_and_shows_history(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"Hello": [Reply(text="Hi there.")]}) as (desk, provider):
        first = await desk.run("run", "Hello", "--json")
        session_id = json.loads(first.out)["session"]
        forget_model(desk)
        async with open_server_process(desk) as server:
            messages = await ask(server, "GET", f"/session/{session_id}/message")
            before = len(messages.json)
            listed = await ask(server, "GET", "/session")
            config = await ask(server, "GET", "/config")
            ready = await ask(server, "GET", "/ready")
            health = await ask(server, "GET", "/v1/health")
            refused = [
                await ask(server, "POST", f"/session/{session_id}/message", SAID),
                await ask(server, "POST", f"/session/{session_id}/prompt_async", SAID),
                await ask(server, "POST", f"/v1/sessions/{session_id}/prompts", {"prompt": "More"}),
                await ask(server, "POST", "/v1/sessions", {"prompt": "More"}),
            ]
            after = len((await ask(server, "GET", f"/session/{session_id}/message")).json)
            again = len((await ask(server, "GET", "/session")).json)
            doctor = await desk.run("doctor")
            server.process.terminate()
            over = await wait_for_exit(server.process)
    assert over.code == 0
    assert over.err.startswith(f"warning: {UNSET}"), over.err
    assert over.err.count("warning:") == 1
    assert "Traceback" not in over.err
    assert [each["info"]["role"] for each in messages.json] == ["user", "assistant"]
    assert {each.status for each in (listed, config, health)} == {200}
    assert "model" not in config.json
    assert ready.status == 503
    assert "no model is configured" in ready.json["data"]["message"]
    for each in refused:
        assert each.status == 400, each
        assert UNSET in each.json["data"]["message"]
    assert after == before, "nothing was stored"
    assert again == len(listed.json), "nothing was stored"
    assert UNSET in doctor.out
    assert provider.asked == 1


@pytest.mark.spec("A-10")
async def test_a_prompt_without_a_model_waits_and_is_answered_when_there_is_one(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"Hello": [Reply(text="Hi there.")]}) as (desk, provider):
        left = await desk.run("run", "Hello", "--detach")
        session_id = left.out.strip()
        configured = (desk.project / "asyncagents.json").read_text()
        forget_model(desk)
        for _ in range(2):
            async with open_server_process(desk) as server:
                why = await ask(server, "GET", f"/v1/sessions/{session_id}/why")
                messages = await ask(server, "GET", f"/session/{session_id}/message")
                assert await server.stop() == 0
            assert why.json["code"] == "no_model", why.json
            assert "ANTHROPIC_API_KEY" in why.json["sentence"]
            assert len(messages.json) == 1
        asked = provider.asked
        (desk.project / "asyncagents.json").write_text(configured)
        went_on = await desk.run("run", "--session", session_id)
    assert asked == 0
    assert went_on.code == 0
    assert went_on.out.strip() == "Hi there."


@pytest.mark.spec("A-10")
async def test_a_key_that_is_missing_is_named(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        (desk.project / "asyncagents.json").write_text('{"model": "anthropic/claude-sonnet-4-5"}')
        process = await desk.start("serve", "--port", "0")
        await read_until(process, "listening at ")
        process.terminate()
        over = await wait_for_exit(process)
    assert "ANTHROPIC_API_KEY" in over.err
    assert over.code == 0


@pytest.mark.spec("A-10")
async def test_a_run_at_a_server_without_a_model_prints_why_it_waits(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"Hello": [Reply(text="Hi there.")]}) as (desk, _):
        session_id = (await desk.run("run", "Hello", "--detach")).out.strip()
        forget_model(desk)
        async with open_server_process(desk), asyncio.timeout(PATIENCE):
            run = await desk.start("run", "--session", session_id)
            assert run.stderr is not None
            told = b""
            while UNSET.encode() not in told:
                more = await run.stderr.read(4096)
                assert more, f"it ended after {told!r}"
                told += more
            run.terminate()
            await wait_for_exit(run)
