"""Foreign programs of the Agent Client Protocol, offline: OpenCode's and Qwen's."""

import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import Struct

from asyncagents.testing.provider import Reply, TokenUsage, ToolUse
from tests.peer.stage import ALONE, program
from tests.support.acp.schema import LOCK
from tests.support.process.command_line import DESK_KEY
from tests.support.process.npm import install_lock

QWEN_LOCK = Path(__file__).parent / "qwen" / "package-lock.json"


class ForeignProgram(Struct, frozen=True, kw_only=True):
    """How a foreign program is started, and the tools that its model calls."""

    name: str
    version: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    shell_tool: str
    read_tool: str
    read_key: str
    """The argument of `read_tool` that names a file."""
    sums_tokens: bool
    """Whether it reports the tokens of all requests of a prompt, or those of the last one."""

    def run_line(self, line: str, *, text: str = "", reasoning: str = "") -> Reply:
        """The model runs a command; Qwen's tool wants to know whether to wait for it."""
        more = {"is_background": False} if self.name == "qwen" else {}
        use = ToolUse(name=self.shell_tool, args={"command": line, "description": "Run a line", **more})
        return Reply(text=text, reasoning=reasoning, tools=(use,))

    def read_file(self, path: Path) -> Reply:
        return Reply(text="", tools=(ToolUse(name=self.read_tool, args={self.read_key: str(path)}),))

    def reported(self, *, requests: int) -> tuple[int, int]:
        """Return the input and output tokens that it reports for so many requests with a usual reply."""
        usual, count = TokenUsage(), requests if self.sums_tokens else 1
        return usual.input * count, usual.output * count


async def opencode(home: Path, url: str) -> ForeignProgram:
    model = {"name": "M", "tool_call": True, "limit": {"context": 200_000, "output": 8192}}
    local = {
        "name": "The desk",
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "{env:OPENCODE_KEY}"},
        "models": {"m": {**model, "cost": {"input": 1, "output": 2}}},
    }
    config = {
        "model": "desk/m",
        "small_model": "desk/m",
        "enabled_providers": ["desk"],
        "provider": {"desk": local},
        "permission": {"bash": "ask", "edit": "ask"},
    }
    file = home / "foreign-opencode.json"
    file.write_text(json.dumps(config))
    return ForeignProgram(
        name="opencode",
        version="1.18.33",
        command=("env", f"OPENCODE_CONFIG={file}", str(program(await install_lock(LOCK))), "acp"),
        variables={"OPENCODE_KEY": DESK_KEY, **ALONE},
        shell_tool="bash",
        read_tool="read",
        read_key="filePath",
        sums_tokens=False,
    )


async def qwen(home: Path, url: str) -> ForeignProgram:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    modules = await install_lock(QWEN_LOCK)
    start = modules / "@qwen-code" / "qwen-code" / "cli-entry.js"
    return ForeignProgram(
        name="qwen",
        version="0.24.4",
        command=(node, str(start), "--acp", "--approval-mode", "default"),
        variables={"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": DESK_KEY, "OPENAI_MODEL": "m"},
        shell_tool="run_shell_command",
        read_tool="read_file",
        read_key="file_path",
        sums_tokens=True,
    )


FindProgram: TypeAlias = Callable[[Path, str], Awaitable[ForeignProgram]]
PROGRAMS: Mapping[str, FindProgram] = {"opencode": opencode, "qwen": qwen}
