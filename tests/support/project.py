"""Stages in a git repository of their own: plain, with plugins, or with changes to undo."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents.config.config import Config
from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.id import MessageId
from asyncagents.engine.tool import AnyTool, Tool, ToolContext
from asyncagents.llm.scripted import Script, call, say
from asyncagents.plugins.api import Plugin, PluginContext, PluginHooks
from tests.support.git import create_repository
from tests.support.runtime import Stage, open_stage
from tests.support.tool import ECHO, TextArguments

ASK_EDITS: dict[str, Any] = {"edit": "ask"}


@asynccontextmanager
async def open_project(
    tmp_path: Path, script: Script, *, files: Mapping[str, str] | None = None, **config: Any
) -> AsyncIterator[Stage]:
    """A session in a git repository of its own."""
    root = tmp_path / "project"
    create_repository(root, files or {})
    coding = Config(data_dir=tmp_path / "data", **config)
    async with open_stage(tmp_path / "data", script, coding=coding, directory=root) as at:
        yield at


LONG_PROMPT = (
    "Please look at the retry logic of the payment worker, which sometimes charges twice, and make it safe."
)


HookArguments = dict[str, Any]


def build_plugin(hooks: PluginHooks) -> Plugin:
    async def plugin(context: PluginContext) -> PluginHooks:
        return hooks

    return plugin


@asynccontextmanager
async def open_plugin_project(
    tmp_path: Path, script: Script, *plugins: Plugin, files: Mapping[str, str] | None = None, **config: Any
) -> AsyncIterator[Stage]:
    root = tmp_path / "project"
    create_repository(root, files or {})
    coding = Config(data_dir=tmp_path / "data", **config)
    async with open_stage(
        tmp_path / "data", script, tools=[ECHO], coding=coding, plugins=plugins, directory=root
    ) as at:
        yield at


GO = "echo two > a.txt; echo new > b.txt; rm c.txt"


MORE = "echo three > a.txt; mkdir d; echo x > d/e.txt"


REVERT_FILES = {"a.txt": "one\n", "c.txt": "see\n"}


async def run_shell(args: TextArguments, context: ToolContext) -> Completed:
    """Whatever a project's own programs do."""
    await asyncio.to_thread(subprocess.run, ["sh", "-c", args.text], cwd=context.directory, check=True)
    return Completed("done")


SHELL_TOOL: Tool[TextArguments] = Tool("work", TextArguments, run_shell)


REVERT_SCRIPT: Script = {
    "go": [[call("work", text=GO)], [say("Did.")]],
    "more": [[call("work", text=MORE)], [say("More.")]],
    "hello": [[say("Hi.")]],
}


@asynccontextmanager
async def open_revert_project(
    tmp_path: Path,
    script: Script = REVERT_SCRIPT,
    *,
    files: Mapping[str, str] = REVERT_FILES,
    tools: Sequence[AnyTool] = (),
    **config: Any,
) -> AsyncIterator[Stage]:
    create_repository(tmp_path / "project", files)
    coding = Config(data_dir=tmp_path / "data", **config)
    where = tmp_path / "project"
    async with open_stage(
        tmp_path / "data", script, coding=coding, directory=where, tools=(SHELL_TOOL, *tools), undoes=True
    ) as at:
        yield at


def read_tree(root: Path) -> dict[str, str]:
    found = sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.parts and path.suffix != ".sh"
    )
    return {str(path.relative_to(root)): path.read_text() for path in found}


async def prompt_ids(at: Stage) -> list[MessageId]:
    return [entry.info.id for entry in await at.messages() if isinstance(entry.info, UserMessage)]
