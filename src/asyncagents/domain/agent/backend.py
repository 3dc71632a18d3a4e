"""Backends of agents: programs that work in place of a model."""

from msgspec import Struct

OBSERVED_TOOL = "external:"
"""Begins the names of tools that an external agent runs, so that they are names of no tool of ours."""


class AcpBackend(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An external agent: a program that speaks the Agent Client Protocol on its stdin and stdout."""

    command: tuple[str, ...]
    environment: tuple[str, ...] = ()
    """Names of variables that the program gets besides those that all programs get."""
    instructions: str = ""
    """Text that is sent before the first prompt."""

    @property
    def command_line(self) -> str:
        return " ".join(self.command)
