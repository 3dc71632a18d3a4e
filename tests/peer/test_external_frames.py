"""All that we send to an external agent is what the official schema allows."""

import json
import sys
from pathlib import Path

import pytest

from asyncagents.domain.event import PartDelta
from asyncagents.remote.json_rpc import METHOD_NOT_FOUND
from asyncagents.testing.acp_agent import Act
from tests.support.acp.rules import ConnectionCheck
from tests.support.acp.schema import load_schema
from tests.support.acp.stage import TAP
from tests.support.acp_agent import launching, open_external_stage, scripted
from tests.support.delegation import wait_until_quiet
from tests.support.process.npm import SECONDS

pytestmark = pytest.mark.timeout(SECONDS + 60)
CALL = {"toolCallId": "c1", "title": "make", "kind": "execute", "rawInput": {"command": "make"}}
PLAN = {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}]}
TURNS = {
    "look": [Act(update=PLAN), Act(ask=CALL), Act(request="fs/read_text_file")],
    "more": [Act(say="More.")],
    "wait": [Act(say="Busy."), Act(hang=True)],
}
METHODS = {"initialize", "session/new", "session/prompt", "session/cancel"}


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("reopened", ["session/resume", "session/load"])
async def test_all_frames_to_an_external_agent_are_those_of_the_schema(tmp_path: Path, reopened: str) -> None:
    schema, log = await load_schema(), tmp_path / "frames"
    agent = (sys.executable, "-m", "asyncagents.testing.acp_agent")
    command = (sys.executable, str(TAP), str(log), *agent, f"{tmp_path}/script.json", f"{tmp_path}/memory")
    script = scripted(TURNS, resumes=reopened == "session/resume")
    allowed = {"external_agent": "allow", "bash": "allow"}
    async with open_external_stage(
        tmp_path, script, launching(), command=command, permission=allowed
    ) as stage:
        await stage.at.prompt("go")
        await stage.at.runtime.tasks.resume(await stage.child(), "more")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        await stage.at.runtime.tasks.resume(await stage.child(), "wait")
        await stage.at.listener.until(PartDelta, lambda event: event.delta == "Busy.")
        await stage.at.runtime.tasks.cancel(await stage.child())
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)

    check, ours = ConnectionCheck(schema), []
    for each in map(json.loads, log.read_text().splitlines()):
        if "pid" in each:  # each program is a connection of its own
            check = ConnectionCheck(schema)
            continue
        found = check.find_problems(each["sender"], json.loads(each["line"]))
        if each["sender"] == "client":
            ours.append(json.loads(each["line"]))
            assert found == [], each["line"]
    assert {frame.get("method") for frame in ours} == {*METHODS, reopened, None}
    assert {"outcome": {"outcome": "selected", "optionId": "yes"}} in [frame.get("result") for frame in ours]
    assert METHOD_NOT_FOUND in [frame["error"]["code"] for frame in ours if "error" in frame]
