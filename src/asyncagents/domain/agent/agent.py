"""Agents: a prompt, a model and permission rules under a name."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.agent.permission import RuleLayers
from asyncagents.domain.agent.sandbox import Sandbox
from asyncagents.domain.conversation.message import ModelRef

Mode: TypeAlias = Literal["primary", "subagent", "all"]


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    mode: Mode
    layers: RuleLayers
    """Without the session's own rules and the project's approvals, which are applied on top."""
    prompt: str
    description: str | None = None
    model: ModelRef | None = None
    """None: the model of the session or of its parent."""
    variant: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    steps: int | None = None
    """Max steps after a person's prompt; None is no limit."""
    hidden: bool = False
    native: bool = False
    """Whether the agent is built in; configuration may have changed it."""
    color: str | None = None
    options: dict[str, Any] = {}
    """Options passed to the model unchanged."""
    asks_anew: tuple[str, ...] = ()
    """Permissions that ask every time, whatever approvals exist."""
    sandbox: Sandbox | None = None
    """The sandbox of its commands; None: no sandbox."""
    backend: AcpBackend | None = None
    """The external agent that does its work; None: a model does."""
    origin: str = "built in"
    """The file that defines it, `config`, or `built in`."""

    @property
    def speaks_to_people(self) -> bool:
        return self.mode != "subagent" and not self.hidden
