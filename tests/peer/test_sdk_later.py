"""The published SDK in 2031: it makes ids of the old form, and a server whose clock is there takes them."""

import asyncio
import json
import shutil
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.peer.drive import LOCK, SCRIPT
from tests.peer.provider import open_servants
from tests.peer.stage import ground_at, our_server
from tests.support.process.npm import SECONDS, install_lock

PATIENCE = 120.0
IN_2031 = 1_940_000_000_000
pytestmark = pytest.mark.timeout(SECONDS + PATIENCE)


async def driven(**given: Any) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = str(SCRIPT.with_name("later.mjs"))
    process = await asyncio.create_subprocess_exec(node, script, json.dumps(given), stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)
    return told


@pytest.mark.spec("Z-08", "X-01")
async def test_the_published_sdk_talks_undoes_and_forks_in_2031(tmp_path: Path) -> None:
    modules = await install_lock(LOCK)
    ahead = IN_2031 - time.time_ns() // 1_000_000
    program = (sys.executable, str(Path(__file__).with_name("later.py")), str(ahead))
    async with open_servants() as provider:
        ground = ground_at(tmp_path, provider.url)
        async with our_server(ground, program=program) as served:
            where = {"url": served.url, "token": served.token, "project": str(ground.project)}
            told = await driven(modules=str(modules), ahead=ahead, **where)
    for each in told.values():
        assert each["read"] == each["said"]
        assert sorted(each["said"]) != each["said"], "else this shows nothing"
        assert [len(prompt["steps"]) for prompt in each["prompts"]] == [1, 2, 1]
        assert [prompt["answer"] for prompt in each["prompts"]] == [
            prompt["steps"][-1] for prompt in each["prompts"]
        ]
        assert each["found"] == each["undone"] == each["prompts"][1]["messageID"]
        assert each["fork"]["texts"] == ["One.", "ok", "Two."]
        assert each["after"]["read"] == each["after"]["said"]
        assert each["after"]["texts"] == ["One.", "Four."]
        assert all(step.startswith("msg_h") for prompt in each["prompts"] for step in prompt["steps"])
        assert each["sessionID"].startswith("ses_--")
    listed = told["v2"]["sessions"]
    assert [told["v2"]["sessionID"], told["v2"]["fork"]["id"]] == listed[:2], "the last used first"
