"""An agent: a prompt, a model and what it may do, under a name."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.message import ModelRef
from asyncagents.domain.permission import Layers
from asyncagents.domain.sandbox import Sandbox

Mode: TypeAlias = Literal["primary", "subagent", "all"]


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    mode: Mode
    layers: Layers
    """Without a session's own rules and what was approved for good: those are laid over them."""
    prompt: str
    description: str | None = None
    model: ModelRef | None = None
    """None: the one of the session, or of the parent."""
    variant: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    steps: int | None = None
    """How many steps may follow what a person says; None is no limit."""
    hidden: bool = False
    native: bool = False
    """Built in, though it may have been changed."""
    color: str | None = None
    options: dict[str, Any] = {}
    """Handed to the model as they are."""
    asks_anew: tuple[str, ...] = ()
    """Permissions for which it asks every time, whatever was approved for good."""
    sandbox: Sandbox | None = None
    """Where its commands run; None: outside any."""
    origin: str = "built in"
    """The file that defines it, `config`, or `built in`."""

    @property
    def speaks_to_people(self) -> bool:
        return self.mode != "subagent" and not self.hidden
