"""The published SDK of the Agent Client Protocol drives `asyncagents acp`: children and notices."""

from pathlib import Path

import pytest

from tests.peer.acp_sdk import PATIENCE, drive_sdk
from tests.support.acp.schema import LOCK, load_schema
from tests.support.acp.stage import open_acp_stage
from tests.support.process.npm import SECONDS, install_lock

pytestmark = pytest.mark.timeout(SECONDS + PATIENCE)


@pytest.mark.spec("X-03", "T-12")
async def test_the_published_sdk_shows_children_notices_and_a_turn_that_nobody_prompted(
    tmp_path: Path,
) -> None:
    modules = await install_lock(LOCK)
    async with open_acp_stage(tmp_path, await load_schema(unstable=True)) as stage:
        go = {"touch": str(stage.project / "go")}
        events = await drive_sdk(
            stage, modules, {"prompt": "launch"}, go, {"until": "Counted."}, {"prompt": "fail"}
        )
        problems = stage.find_problems()
    assert problems == [], "\n".join(problems)
    assert events.stop_reasons == ["end_turn"]
    [child] = events.children
    assert events.text(child) == "Three."
    assert events.text(events.session) == "Launched.Counted."
    announced = events.updates(events.session, "subagent_update")
    assert [each["state"]["state"] for each in announced if "state" in each][-1] == "idle"
    assert events.asked == ["./note asked later"]
    [notice] = events.updates(events.session, "notice")
    assert notice["severity"] == "error"
    assert "does not like this" in notice["description"]
    assert stage.lines_run() == ["counted", "asked later"]


@pytest.mark.soak
@pytest.mark.spec("X-03", "D-02")
async def test_the_published_sdk_shows_a_fan_out_that_ended_without_it(tmp_path: Path) -> None:
    modules = await install_lock(LOCK)
    async with open_acp_stage(tmp_path, await load_schema(unstable=True)) as stage:
        left = await drive_sdk(stage, modules, {"prompt": "fan out"})
        assert len(left.children) == 6
        stage.let_go()
        back = await drive_sdk(stage, modules, {"load": left.session}, {"until": "All are done."})
        problems = stage.find_problems()
    assert problems == [], "\n".join(problems)
    assert sorted(back.children) == sorted(left.children)
    assert sorted(stage.lines_run()) == [f"part {number}" for number in range(6)]
