"""Where others may have a word: the engine asks at these points, and goes on as they say."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from asyncagents.domain.call import Call, Completed, Failed
from asyncagents.domain.id import SessionId
from asyncagents.domain.message import AssistantMessage, ModelRef
from asyncagents.domain.part import Part, TextPart
from asyncagents.domain.permission import Action
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


class Arriving(Struct, frozen=True, kw_only=True):
    """A prompt that is not admitted yet. None: nobody chose, the session's own counts."""

    session_id: SessionId
    message_id: str
    agent: str | None
    model: ModelRef | None
    parts: tuple[Part, ...]


class Compacting(Struct, frozen=True):
    """What a summary should know besides, or how else it is asked for."""

    context: tuple[str, ...] = ()
    prompt: str | None = None


class Commanded(Struct, frozen=True, kw_only=True):
    """A slash command, filled in and not sent yet."""

    session_id: SessionId
    command: str
    arguments: str
    parts: tuple[Part, ...]


class FinishedText(Struct, frozen=True):
    """A text as it is kept. `continues`: a note at its end asks for another step after the last one."""

    text: str
    continues: bool = False


class HookReport(Struct, frozen=True, kw_only=True):
    """How one hook of one plugin does."""

    hook: str
    calls: int
    failures: int
    off: bool
    """It hung too often, and is not called any more."""
    last: str | None = None


class PluginReport(Struct, frozen=True, kw_only=True):
    name: str
    origin: str
    scope: Literal["program", "user", "project"]
    error: str | None = None
    """Why it does nothing."""
    hooks: tuple[HookReport, ...] = ()
    tools: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    """Built-in tools that its own stand in for."""


class Hooks(Protocol):
    """Nothing here raises or hangs: whoever fails is passed over. Ask only for what is among the names."""

    @property
    def names(self) -> frozenset[HookName]: ...

    async def chat_message(self, arriving: Arriving) -> Arriving: ...

    async def chat_params(self, message: AssistantMessage, options: Options) -> Options: ...

    async def system(self, message: AssistantMessage, system: str) -> str: ...

    async def text_complete(self, part: TextPart) -> FinishedText: ...

    async def permission(self, call: Call, ask: Ask) -> Action:
        """For what the rules leave to a person; "ask" leaves it there."""
        ...

    async def tool_before(self, call: Call) -> dict[str, Any] | Failed:
        """The arguments it shall run with, or why it shall not."""
        ...

    async def tool_after(self, call: Call, done: Completed) -> Completed: ...

    async def shell_env(self, call: Call, directory: str) -> Mapping[str, str]:
        """Variables for a command, besides those that it has."""
        ...

    async def compacting(self, session_id: SessionId) -> Compacting: ...

    async def command(self, commanded: Commanded) -> tuple[Part, ...]: ...

    def reports(self) -> tuple[PluginReport, ...]: ...


class NoHooks:
    """Nobody has a word."""

    names: frozenset[HookName] = frozenset()

    async def chat_message(self, arriving: Arriving) -> Arriving:
        return arriving

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

    async def compacting(self, session_id: SessionId) -> Compacting:
        return Compacting()

    async def command(self, commanded: Commanded) -> tuple[Part, ...]:
        return commanded.parts

    def reports(self) -> tuple[PluginReport, ...]:
        return ()


NO_HOOKS = NoHooks()
