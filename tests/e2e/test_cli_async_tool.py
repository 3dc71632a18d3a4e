"""An async tool at the command line: `run` ends, its result or its deadline comes, `run` goes on."""

import asyncio
import shlex
import shutil
from pathlib import Path

import pytest

from asyncagents import ResultRefused, ScriptedModel, call, open_runtime
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.page import code_blocks
from tests.support.process.command_line import Desk, open_desk
from tests.support.process.server import open_server_process
from tests.support.runtime import open_sqlite_runtime
from tests.support.tool import build_pending_tool

DEPLOYS = Reply(text="I will.", tools=(ToolUse(name="deploy", args={"version": "v2"}),))
SCRIPT: Script = {"ship": [DEPLOYS, Reply(text="So much for v2.")]}
DAY_MS = 24 * 3600 * 1000
TOOL = code_blocks("async-tools.md")[1]


async def with_tool(desk: Desk, code: str) -> None:
    file = desk.project / ".asyncagents/tools/deploy.py"
    file.parent.mkdir(parents=True)
    file.write_text(code, encoding="utf-8")
    assert (await desk.run("trust")).code == 0


@pytest.mark.spec("P-04", "P-05", "X-06")
async def test_the_result_of_a_project_tool_is_checked_and_continues_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, provider):
        await with_tool(desk, TOOL)
        ran = await desk.run("run", "ship")
        monkeypatch.setenv("HOME", str(desk.home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
        async with open_runtime(desk.data, serve=False, coding="each directory") as worker:
            (waiting,) = await worker.async_tools.waiting_calls()
            with pytest.raises(ResultRefused, match="no https address"):
                await worker.async_tools.submit_result(waiting.id, "live")
            await worker.async_tools.submit_result(
                waiting.id, "live", metadata={"url": "https://shop.example"}
            )
        went_on = await desk.run("run", "--continue")

    assert ran.code == 3
    assert ran.out == "I will.\n"
    assert f"deploy waits for its result (v2 is being deployed), {waiting.id}" in ran.err
    assert went_on.code == 0
    assert went_on.out == "So much for v2.\n"
    assert provider.asked == 2


@pytest.mark.spec("P-06", "X-06")
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="needs curl and openssl")
async def test_the_webhook_of_the_page_settles_the_call_that_its_prompt_makes(tmp_path: Path) -> None:
    (prompt, script) = code_blocks("async-tools.md", "sh")
    (_, *words) = shlex.split(prompt)
    async with open_desk(tmp_path) as (desk, _):
        await with_tool(desk, TOOL)
        async with open_server_process(desk, "--port", "0"):
            ran = await desk.run(*words)
            shell = await asyncio.create_subprocess_exec(
                *("sh", "-euc", f". ~/deploy.env\n{script}"), env=desk.environment({})
            )
            assert await shell.wait() == 0
            (done,) = (await desk.run("pending", "--status", "completed", "--json")).json
            went_on = await desk.run("run", "--continue")

    assert ran.code == 3
    assert done["result"]["metadata"] == {"url": "https://shop.example"}
    assert went_on.out == "It is live.\n"


@pytest.mark.spec("P-07", "P-08")
async def test_a_call_overdue_while_no_process_ran_expires_in_the_next_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path, otherwise=Reply(text="So much for v2.")) as (desk, provider):
        desk.data.mkdir()
        model = ScriptedModel({"ship": [[call("deploy")]]})
        setup = Setup(model=model, open_workplaces=fixed_tools([build_pending_tool("deploy")]))
        before_yesterday = FakeClock(SystemClock().now() - 2 * DAY_MS)
        async with open_sqlite_runtime(desk.data, setup, clock=before_yesterday) as runtime:
            session = await runtime.create_session(directory=desk.project)
            await runtime.prompt(session.id, "ship", model="local/m")
            (waiting,) = await runtime.async_tools.waiting_calls()
        went_on = await desk.run("run", "--continue")
        async with desk.look() as runtime:
            expired = await runtime.async_tools.get(waiting.id)

    assert "deploy() failed: Tool execution timed out" in went_on.err
    assert went_on.code == 0
    assert went_on.out == "So much for v2.\n"
    assert provider.asked == 1
    assert waiting.status == "waiting"
    assert expired.status == "expired"
