"""Scripts of the provider for commands, and what the commands leave."""

from typing import Any

from asyncagents import SessionId
from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.process.command_line import CommandResult, Desk

PERMISSION_PROMPT = "[?] more > "


ASK_EDITS = {"edit": "ask"}


def write_use(name: str, content: str) -> ToolUse:
    return ToolUse("write", {"filePath": name, "content": content})


def script_steps(*calls: ToolUse, text: str = "") -> Script:
    """One step for each call, and the end."""
    return {"go": [*(Reply(text=text, tools=(call,)) for call in calls), Reply(text="Done.")]}


def read_project_file(desk: Desk, name: str) -> str | None:
    path = desk.project / name
    return path.read_text() if path.exists() else None


SHIP_TOOLS = '''
from asyncagents import Pending, ToolContext, ToolResult, approval, async_tool


def of_a_version(result: ToolResult) -> str | None:
    return None if result.output.startswith("v") else "a version begins with v"


@async_tool(seconds=3600, validate_result=of_a_version)
def deploy(version: str) -> Pending:
    """Bring a version to the servers."""
    return Pending(note=f"queued {version}", external_ref="job-7")


@approval(who="release managers", seconds=4 * 3600)
def may_ship(version: str) -> str:
    """Ask whether a version may go out."""
    return f"May {version} go out?"
'''


DEPLOY = ToolUse("deploy", {"version": "v2"})


def script_step(*calls: ToolUse) -> Script:
    return {"go": [Reply(text="I will.", tools=calls), Reply(text="Done.")]}


async def run_until_parked(desk: Desk, *words: str) -> tuple[CommandResult, SessionId, list[str]]:
    """A run that ends with calls open: how it ended, and their ids."""
    folder = desk.project / ".asyncagents" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ship.py").write_text(SHIP_TOOLS)
    ran = await desk.run("run", *(words or ("go",)))
    assert ran.code == 3, ran.err
    (session,) = (await desk.run("sessions", "--json")).json
    listed = (await desk.run("pending", "--json")).json
    return ran, session["id"], [row["id"] for row in listed]


def launch_use(description: str, prompt: str) -> ToolUse:
    return ToolUse(
        name="asyncagents_task", args={"description": description, "prompt": prompt, "agent": "general"}
    )


FAN_OUT: Script = {
    "Fan out": [
        Reply(text="", tools=(launch_use("Read A", "go"), launch_use("Read B", "go"))),
        Reply(text="Waiting."),
        *[Reply(text="All are in.")] * 2,
    ],
    "go": [Reply(text="It is 1.")],
    "And more?": [Reply(text="It is 2.")],
}


async def list_task_trees(desk: Desk, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await desk.run("tasks", "--json", *words)).json
    return found
