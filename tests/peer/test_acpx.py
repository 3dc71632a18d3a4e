"""`acpx` drives `asyncagents acp` in its session mode: one agent lives on between prompts."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.peer.acpx import PATIENCE, Acpx
from tests.support.acp.schema import LOCK, load_schema
from tests.support.acp.stage import AcpStage, open_acp_stage
from tests.support.process.npm import SECONDS, install_lock
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(SECONDS + PATIENCE)


@asynccontextmanager
async def open_acpx(root: Path) -> AsyncIterator[tuple[AcpStage, Acpx]]:
    """A session of acpx; at the end no frame of either side may have had a problem."""
    modules = await install_lock(LOCK)
    async with open_acp_stage(root, await load_schema()) as stage:
        acpx = Acpx(stage, modules)
        created = await acpx.run("sessions", "new")
        assert created.code == 0, created.errors
        try:
            yield stage, acpx
        finally:
            await acpx.close()
        problems = stage.find_problems()
        assert problems == [], "\n".join(problems)


@pytest.mark.spec("X-03", "A-04", "O-04")
async def test_acpx_shows_plan_diff_and_permission_and_answers_one_of_a_turn_it_did_not_prompt(
    tmp_path: Path,
) -> None:
    async with open_acpx(tmp_path) as (stage, acpx):
        worked = await acpx.prompt("work")
        assert worked.stop_reasons == ["end_turn"], worked.errors
        assert "It all worked well." in worked.text
        assert [each["status"] for each in stage.updates("plan")[-1]["entries"]] == ["completed"] * 2
        content = [each for call in stage.updates("tool_call_update") for each in call.get("content", ())]
        assert {"type": "diff", "path": str(stage.project / "a.txt"), "newText": "new\n"} in content
        assert (await acpx.prompt("launch")).text == "Launched."
        assert len(stage.asks()) == 1
        stage.let_go()
        await wait_until(lambda: "Counted." in stage.text(), seconds=PATIENCE)
        assert len(stage.asks()) == 2
        assert stage.lines_run() == ["asked first", "counted", "asked later"]
        assert (await acpx.prompt("go on")).text == "Going on."


async def kill_agent(stage: AcpStage) -> int:
    pid = stage.agent_pid()
    os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: not Path(f"/proc/{pid}").exists())
    return pid


@pytest.mark.soak
@pytest.mark.spec("X-03", "A-04")
async def test_acpx_goes_on_after_its_agent_was_killed_and_a_child_has_run_all_the_time(
    tmp_path: Path,
) -> None:
    async with open_acpx(tmp_path) as (stage, acpx):
        assert (await acpx.prompt("launch")).text == "Launched."
        killed = await kill_agent(stage)
        went_on = await acpx.prompt("go on")
        assert went_on.text == "Going on.", went_on.errors
        assert stage.agent_pid() != killed
        stage.let_go()
        await wait_until(lambda: "Counted." in stage.text(), seconds=PATIENCE)
        assert stage.lines_run() == ["counted", "asked later"]


@pytest.mark.soak
@pytest.mark.spec("X-03", "A-04")
async def test_acpx_goes_on_after_agent_and_server_were_killed(tmp_path: Path) -> None:
    async with open_acpx(tmp_path) as (stage, acpx):
        assert "It all worked well." in (await acpx.prompt("work")).text
        await kill_agent(stage)
        await stage.kill_server()
        launched = await acpx.prompt("launch")
        assert launched.text == "Launched.", launched.errors
        stage.let_go()
        await wait_until(lambda: "Counted." in stage.text(), seconds=PATIENCE)
        assert stage.lines_run() == ["asked first", "counted", "asked later"]
