"""One step with a long command, a call that asks, and one that waits for the outside; also as a process."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from asyncagents.config.config import Config
from asyncagents.llm.scripted import Script, ScriptedModel, call, say
from tests.support.runtime import open_runtime
from tests.support.tool import build_pending_tool

LONG = "echo x >> runs; until [ -e go ]; do sleep 0.05; done; echo ended"
"""Runs until there is a file `go`, and tells in another how often it was started."""
SCRIPT: Script = {
    "go": [
        [
            call("bash", command=LONG),
            call("write", filePath="asked.txt", content="approved"),
            call("deploy"),
        ],
        [say("All done.")],
    ]
}
RULES: dict[str, Any] = {"bash": "allow", "unclear_command": "allow", "edit": "ask", "deploy": "allow"}
DEPLOY = build_pending_tool("deploy", note="it is on its way")


def open_batch_runtime(data: Path) -> Config:
    return Config(data_dir=data, permission=RULES)


async def serve(data: Path) -> None:
    """Until it is killed, or whoever started it is gone."""
    async with open_runtime(
        data, model=ScriptedModel(SCRIPT), tools=[DEPLOY], coding=open_batch_runtime(data)
    ):
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
