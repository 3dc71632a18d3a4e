"""A line to an MCP server as the rest sees it: what it offers, how it is asked, and how it is lost."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from asyncagents.domain.call import Completed, Effect, Failed
from asyncagents.engine.served import Content, ReadyPrompt, Resource
from asyncagents.errors import ToolError

TAIL_LINES = 20
TAIL_LINE = 500
SHORTEST_SECRET = 8
UNAUTHORISED = frozenset({401, 403})
NEEDS_HEADER = (
    "It answered with HTTP status {}: set a header that it accepts under `headers` in its configuration."
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Offer(Struct, frozen=True, kw_only=True):
    """A tool of a server, under the server's own name for it."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect = "once"


class Lost(ToolError):
    """The line broke; what was asked may have been done."""

    def __init__(self, why: str, *, never_ran: bool = False) -> None:
        super().__init__(why)
        self.never_ran = never_ran


class Line(Protocol):
    """Raises `Lost`, or `ToolError` for what the server refuses."""

    async def offers(self) -> tuple[Offer, ...]: ...

    async def call(
        self, name: str, arguments: dict[str, Any], report: Callable[[dict[str, Any]], None]
    ) -> Completed | Failed: ...

    async def resources(self) -> tuple[Resource, ...]: ...

    async def read(self, uri: str) -> tuple[Content, ...]: ...

    async def prompts(self) -> tuple[ReadyPrompt, ...]: ...

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[Content, ...]: ...

    async def follow(self, changed: Callable[[], None]) -> None:
        """Listens for changes of the list of tools, where the server has to be asked for that."""
        ...


class Tail:
    """The last that a server complained of, without what it was given to keep."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = sorted(
            {each for each in secrets if len(each) >= SHORTEST_SECRET}, key=len, reverse=True
        )
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._rest = ""

    def feed(self, text: str) -> None:
        """However much it is, little is kept; veiled before it is cut, or half a secret would be left."""
        *lines, rest = self.veiled(self._rest + text)[-TAIL_LINES * TAIL_LINE :].split("\n")
        self._rest = rest[-TAIL_LINE:]
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        line = _CONTROL.sub(" ", line).strip()
        if line:
            self._lines.append(self.veiled(line)[:TAIL_LINE])

    def veiled(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    @property
    def lines(self) -> tuple[str, ...]:
        rest = self.veiled(_CONTROL.sub(" ", self._rest).strip())
        return (*self._lines, rest) if rest else tuple(self._lines)
