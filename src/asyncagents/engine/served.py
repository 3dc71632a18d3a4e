"""What servers offer to a directory besides tools: texts and data to read, and prompts made ready."""

from typing import Protocol

from msgspec import Struct


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
