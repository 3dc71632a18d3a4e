"""The hooks that plugins implement, as the engine calls them."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from asyncagents.domain.agent.permission import Action
from asyncagents.domain.call.call import Call, Completed, Failed
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef
from asyncagents.domain.conversation.part import Part, TextPart
from asyncagents.domain.id import SessionId
from asyncagents.engine.tool import Ask
from asyncagents.llm.model import Options

HookName: TypeAlias = Literal[
    "event",
    "config",
    "tool",
    "chat.message",
    "chat.params",
    "permission.ask",
    "command.execute.before",
    "tool.execute.before",
    "tool.execute.after",
    "shell.env",
    "experimental.chat.system.transform",
    "experimental.session.compacting",
    "experimental.text.complete",
]


class IncomingPrompt(Struct, frozen=True, kw_only=True):
    """A prompt that is not admitted yet. `agent`, `model`: None if not chosen, the session's own apply."""

    session_id: SessionId
    message_id: str
    agent: str | None
    model: ModelRef | None
    parts: tuple[Part, ...]


class CompactionHints(Struct, frozen=True):
    """Additional context for a summary, or another system prompt for it."""

    context: tuple[str, ...] = ()
    prompt: str | None = None


class ExpandedCommand(Struct, frozen=True, kw_only=True):
    """A slash command, filled in and not admitted yet."""

    session_id: SessionId
    command: str
    arguments: str
    parts: tuple[Part, ...]


class FinishedText(Struct, frozen=True):
    """A text as it is stored. `continues`: a note at its end asks for another step after the last one."""

    text: str
    continues: bool = False


class HookReport(Struct, frozen=True, kw_only=True):
    """Statistics of one hook of one plugin."""

    hook: str
    calls: int
    failures: int
    off: bool
    """Whether it timed out too often and is no longer called."""
    last: str | None = None


class PluginReport(Struct, frozen=True, kw_only=True):
    name: str
    origin: str
    scope: Literal["program", "user", "project"]
    error: str | None = None
    """Why the plugin is not loaded."""
    hooks: tuple[HookReport, ...] = ()
    tools: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    """Built-in tools that its own tools replace."""


class Hooks(Protocol):
    """Hooks of a directory. None raises or hangs: a failing hook is skipped. Call only those in `names`."""

    @property
    def names(self) -> frozenset[HookName]: ...

    async def chat_message(self, prompt: IncomingPrompt) -> IncomingPrompt: ...

    async def chat_params(self, message: AssistantMessage, options: Options) -> Options: ...

    async def system(self, message: AssistantMessage, system: str) -> str: ...

    async def text_complete(self, part: TextPart) -> FinishedText: ...

    async def permission(self, call: Call, ask: Ask) -> Action:
        """Decide an ask that the rules leave to a person; "ask" leaves it to the person."""
        ...

    async def tool_before(self, call: Call) -> dict[str, Any] | Failed:
        """Return the arguments to run the call with, or why it must not run."""
        ...

    async def tool_after(self, call: Call, done: Completed) -> Completed: ...

    async def shell_env(self, call: Call, directory: str) -> Mapping[str, str]:
        """Return additional environment variables for a shell command."""
        ...

    async def compacting(self, session_id: SessionId) -> CompactionHints: ...

    async def command(self, commanded: ExpandedCommand) -> tuple[Part, ...]: ...

    def reports(self) -> tuple[PluginReport, ...]: ...


class NoHooks:
    """A directory without plugins."""

    names: frozenset[HookName] = frozenset()

    async def chat_message(self, prompt: IncomingPrompt) -> IncomingPrompt:
        return prompt

    async def chat_params(self, message: AssistantMessage, options: Options) -> Options:
        return options

    async def system(self, message: AssistantMessage, system: str) -> str:
        return system

    async def text_complete(self, part: TextPart) -> FinishedText:
        return FinishedText(part.text)

    async def permission(self, call: Call, ask: Ask) -> Action:
        return "ask"

    async def tool_before(self, call: Call) -> dict[str, Any] | Failed:
        return call.input

    async def tool_after(self, call: Call, done: Completed) -> Completed:
        return done

    async def shell_env(self, call: Call, directory: str) -> Mapping[str, str]:
        return {}

    async def compacting(self, session_id: SessionId) -> CompactionHints:
        return CompactionHints()

    async def command(self, commanded: ExpandedCommand) -> tuple[Part, ...]:
        return commanded.parts

    def reports(self) -> tuple[PluginReport, ...]:
        return ()


NO_HOOKS = NoHooks()
