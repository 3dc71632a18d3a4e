"""The plugin API: an async function that gets a context and returns its hooks by name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from msgspec import Struct

from asyncagents.config.config import Config
from asyncagents.domain.event import Event
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool


class ShellResult(Struct, frozen=True, kw_only=True):
    exit: int
    output: str
    """Standard output and error together, cut in the middle if they are long."""
    truncated: bool
    timed_out: bool


Shell: TypeAlias = Callable[[str, float], Awaitable[ShellResult]]


class PluginProject(Struct, frozen=True):
    id: str
    worktree: str


class PluginContext(Struct, frozen=True, kw_only=True):
    """The directory that a plugin is loaded for, and what it may use there."""

    name: str
    directory: str
    worktree: str
    project: PluginProject
    options: dict[str, Any]
    """The plugin's options in the configuration."""
    server_url: str | None
    """The address of the server; None if there is none."""
    runtime: Callable[[], Runtime]
    run: Shell

    @property
    def client(self) -> Runtime:
        """The runtime. Raises `Closed` if none is running, as when plugins are only listed."""
        return self.runtime()

    async def shell(self, command: str, *, timeout: float = 30.0) -> ShellResult:
        """Run a command in the directory, without our keys in its environment; end it after `timeout`."""
        return await self.run(command, timeout)


Hook: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], Awaitable[None] | None]
"""A hook function: gets the input, and the output, which it may change in place."""

PluginHooks = TypedDict(
    "PluginHooks",
    {
        "event": Callable[[Event], Awaitable[None] | None],
        "config": Callable[[Config], Awaitable[Config | None] | Config | None],
        "tool": Mapping[str, AnyTool] | Sequence[AnyTool],
        "chat.message": Hook,
        "chat.params": Hook,
        "permission.ask": Hook,
        "command.execute.before": Hook,
        "tool.execute.before": Hook,
        "tool.execute.after": Hook,
        "shell.env": Hook,
        "experimental.chat.system.transform": Hook,
        "experimental.session.compacting": Hook,
        "experimental.text.complete": Hook,
    },
    total=False,
)
"""The hooks of a plugin by their names; a plugin returns those that it has."""
Plugin: TypeAlias = Callable[[PluginContext], Awaitable[PluginHooks]]
"""A plugin: an async function that gets a `PluginContext` and returns its hooks."""
