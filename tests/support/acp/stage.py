"""A desk for clients of `asyncagents acp`: a project, a scripted provider, the scenes, and all frames."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from asyncagents.server.discovery import find_server
from asyncagents.testing.provider import Provider, Reply, Script, ToolUse
from tests.support.acp.client import ALLOW, Policy, ProcessClient, open_client
from tests.support.acp.rules import ConnectionCheck
from tests.support.acp.schema import Frame, ProtocolSchema, Side
from tests.support.path import ROOT
from tests.support.process.command_line import PROGRAM, Desk, open_desk
from tests.support.wait import wait_until

TAP = ROOT / "tests" / "support" / "acp" / "tap.py"
RULES = {"bash": {"*": "allow", "./note asked*": "ask"}}
NOTE = '#!/bin/sh\necho "$@" >> ran\n'
HOLD = '#!/bin/sh\nuntil test -e go; do sleep 0.05; done\necho "$@" >> ran\n'
"""Programs of the project: both write their arguments down, the second one when the test lets it go."""


def call_tool(name: str, **arguments: Any) -> Reply:
    return Reply(text="", tools=(ToolUse(name=name, args=arguments),))


def run_line(line: str) -> Reply:
    return call_tool("bash", command=line, description="Run a line")


def launch(*names: str) -> Reply:
    """Launch children; the name of each is its prompt."""
    uses = [{"description": f"Do {name}", "prompt": name, "agent": "general"} for name in names]
    return Reply(text="", tools=tuple(ToolUse(name="async_task", args=use) for use in uses))


TODOS = [
    {"content": "Look", "status": "completed", "priority": "high"},
    {"content": "Leap", "status": "cancelled", "priority": "low"},
]
SCENES: Script = {
    "work": [
        call_tool("todowrite", todos=TODOS),
        call_tool("write", filePath="a.txt", content="new\n"),
        run_line("./note asked first"),
        Reply(text="It all worked well.", chunks=4, reasoning="Let me see."),
    ],
    "launch": [
        launch("count"),
        Reply(text="Launched."),
        run_line("./note asked later"),
        Reply(text="Counted."),
    ],
    "count": [run_line("./hold counted"), Reply(text="Three.")],
    "fan out": [
        launch(*(f"part {number}" for number in range(6))),
        Reply(text="Six are on their way."),
        Reply(text="All are done."),
    ],
    **{
        f"part {number}": [run_line(f"./hold part {number}"), Reply(text=f"Part {number}.")]
        for number in range(6)
    },
    "go on": [Reply(text="Going on."), run_line("./note asked later"), Reply(text="Counted.")],
    "fail": [Reply(status=400, error="The provider does not like this.")],
}


class AcpStage:
    """Starts clients of `asyncagents acp` in one project with one data directory."""

    def __init__(self, desk: Desk, provider: Provider, schema: ProtocolSchema) -> None:
        self.desk = desk
        self.provider = provider
        self.project = desk.project
        self.schema = schema
        self.log = desk.home / "frames"
        self.environment = desk.environment({})
        desk.configure(permission=RULES)
        for name, text in (("note", NOTE), ("hold", HOLD)):
            (desk.project / name).write_text(text)
            (desk.project / name).chmod(0o755)

    def open_client(self, policy: Policy = ALLOW) -> AbstractAsyncContextManager[ProcessClient]:
        return open_client(
            (PROGRAM, "acp"), cwd=self.project, env=self.environment, schema=self.schema, policy=policy
        )

    @property
    def command(self) -> tuple[str, ...]:
        """The agent as a command for clients that are programs; its frames go into the log."""
        return (sys.executable, str(TAP), str(self.log), PROGRAM, "acp")

    def let_go(self) -> None:
        """Let the commands go on that are held."""
        (self.project / "go").touch()

    def lines_run(self) -> list[str]:
        """What the commands of the scenes wrote; a line that is there twice was run twice."""
        ran = self.project / "ran"
        return ran.read_text().splitlines() if ran.exists() else []

    def read_log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def frames(self) -> list[tuple[Side, Frame]]:
        """The frames of programs in both directions so far."""
        return [(each["sender"], json.loads(each["line"])) for each in self.read_log() if "line" in each]

    def updates(self, *kinds: str) -> list[Frame]:
        """The updates that agents sent to programs so far."""
        found = (frame["params"]["update"] for _, frame in self.frames() if _is_update(frame))
        return [each for each in found if each["sessionUpdate"] in kinds]

    def text(self) -> str:
        return "".join(each["content"]["text"] for each in self.updates("agent_message_chunk"))

    def asks(self) -> list[Frame]:
        return [frame for _, frame in self.frames() if frame.get("method") == "session/request_permission"]

    def agent_pid(self) -> int:
        """The process of the agent that was started last by a program."""
        return int(next(each["pid"] for each in reversed(self.read_log()) if "pid" in each))

    def find_problems(self) -> list[str]:
        """What is wrong with the frames of programs; each agent is a connection of its own."""
        found: list[str] = []
        check = ConnectionCheck(self.schema)
        for each in self.read_log():
            if "pid" in each:
                check = ConnectionCheck(self.schema)
                continue
            problems = check.find_problems(each["sender"], json.loads(each["line"]))
            found += [f"{each['sender']}: {problem}\n  in {each['line'][:1000]}" for problem in problems]
        return found

    async def kill_server(self, how: signal.Signals = signal.SIGKILL) -> int | None:
        """End the server of the data directory, if one runs, and return its process id."""
        return await kill_server(self.desk.data, how)


async def kill_server(data: Path, how: signal.Signals = signal.SIGKILL) -> int | None:
    """End the server of a data directory, if one runs, and return its process id."""
    listing = find_server(data)
    if listing is None:
        return None
    with suppress(ProcessLookupError):
        os.kill(listing.pid, how)
    await wait_until(lambda: not Path(f"/proc/{listing.pid}").exists())
    return listing.pid


def _is_update(frame: Frame) -> bool:
    return frame.get("method") == "session/update"


@asynccontextmanager
async def open_acp_stage(
    root: Path, schema: ProtocolSchema, script: Script = SCENES
) -> AsyncIterator[AcpStage]:
    """Open a stage; at its end the server that a client has started is killed."""
    async with open_desk(root, script, strict=False) as (desk, provider):
        stage = AcpStage(desk, provider, schema)
        try:
            yield stage
        finally:
            await stage.kill_server()
