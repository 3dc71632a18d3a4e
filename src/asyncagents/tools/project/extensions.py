"""What plugins and tool files add to a project, and the protocol that finds and loads them."""

from typing import Protocol, TypeVar

from msgspec import Struct

from asyncagents.config.config import Config
from asyncagents.engine.workplace.hooks import NO_HOOKS, Hooks
from asyncagents.tools.project.extra_tools import ExtraTool


class Additions(Struct, frozen=True, kw_only=True):
    """What extensions add to a directory: tools, hooks, and its changed config."""

    config: Config
    tools: tuple[ExtraTool, ...] = ()
    hooks: Hooks = NO_HOOKS
    warnings: tuple[str, ...] = ()


F = TypeVar("F")


class Extensions(Protocol[F]):
    def find(self, directory: str, config: Config, *, trusted: bool) -> F | None:
        """Find the extensions of a directory; None: there are none. Called in a thread; must be cheap."""
        ...

    async def load(self, found: F, config: Config) -> Additions:
        """Load them; called on the event loop. Never raises."""
        ...
