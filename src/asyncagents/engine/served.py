"""What servers offer to a directory besides tools: texts and data to read, and prompts made ready."""

from typing import Literal, Protocol

from msgspec import Struct

from asyncagents.config.config import McpConfig


class Resource(Struct, frozen=True, kw_only=True):
    server: str
    uri: str
    name: str
    description: str = ""
    mime: str = ""


class Content(Struct, frozen=True, kw_only=True):
    """Words, or data."""

    uri: str = ""
    mime: str = ""
    text: str | None = None
    data: bytes | None = None


class Argument(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class ReadyPrompt(Struct, frozen=True, kw_only=True):
    """A prompt that a server fills in; as a command it is named `server:prompt`."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[Argument, ...] = ()

    @property
    def command(self) -> str:
        return f"{self.server}:{self.name}"


class Served(Protocol):
    """A server that is not there raises `ToolError`, which says what to do; nothing else is raised."""

    async def list_resources(self) -> tuple[Resource, ...]:
        """Of all servers, in order; of those that cannot be reached, none."""
        ...

    async def read_resource(self, server: str, uri: str) -> tuple[Content, ...]: ...

    async def list_prompts(self, command: str | None = None) -> tuple[ReadyPrompt, ...]:
        """Of all servers, or of those only that may have the one of this name."""
        ...

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> tuple[Content, ...]: ...


class ServerState(Struct, frozen=True, kw_only=True):
    """A server of tools as a directory has it. `waiting`: it was not needed yet, or is being started."""

    status: Literal["connected", "disabled", "failed", "waiting"]
    why: str = ""
    """What is wrong with it, and what to do."""


class Switchboard(Protocol):
    """The servers of tools of each directory, as people see and switch them. Nothing here is kept for good:
    what was switched or added counts until the runtime ends. One that is not there raises `NotFound`."""

    async def states(self, directory: str, *, seconds: float) -> dict[str, ServerState]:
        """Of all of a directory; those that are wanted are started, and waited for so long."""
        ...

    async def switch(self, directory: str, name: str, *, on: bool) -> None: ...

    async def add(self, directory: str, name: str, config: McpConfig) -> None:
        """Or another in the place of the one of that name."""
        ...
