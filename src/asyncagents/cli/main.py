"""The command line: a group that names its commands and loads one only when it is used."""

import sys
from importlib import import_module
from io import TextIOWrapper
from keyword import iskeyword
from typing import Any

import click

from asyncagents.cli.exit import NobodyReads, ends_well
from asyncagents.config.conceal import conceal_environment

COMMANDS = {
    "run": "Send a prompt and watch the answer being written.",
    "serve": "Work on all sessions of a data directory, and answer over HTTP.",
    "worker": "Work on sessions of a shared database, beside others.",
    "migrate": "Bring a shared database up to date, or a data directory into it.",
    "sessions": "List the sessions of this directory, newest first.",
    "show": "Print the transcript of a session.",
    "asks": "List what waits for a person, the newest last.",
    "answer": "Answer what waits for a person, and go on.",
    "approvals": "List what was answered with always, the newest first.",
    "pending": "List calls whose result comes from outside, the oldest first.",
    "submit": "Give a call its result, which some tool or program waits for.",
    "tasks": "Show the tasks of this directory as a tree, now or as they go on.",
    "task": "Show one task in full: how far it is, its result, its own tasks.",
    "cancel": "End tasks, batches, sessions, all below them, or pending calls.",
    "resume": "Send a follow-up to a task, and work on it.",
    "webhooks": "List webhooks that are owed, delivered or dead.",
    "why": "Say why a session or task does not move.",
    "export": "Write sessions as JSON, for a backup or another machine.",
    "import": "Bring in exported sessions, OpenCode's too.",
    "agents": "List the agents of this directory, or show one in full.",
    "tools": "List the tools that an agent has here, and what the rules say.",
    "commands": "List the slash commands of this directory.",
    "mcp": "Look at the MCP servers of this directory.",
    "plugins": "List the plugins of this directory, and how they do.",
    "models": "List the models that can be asked, and why others cannot.",
    "config": "Show every setting and where it came from.",
    "trust": "Let the config files of a project count in full.",
    "doctor": "Check the installation, and say what to do about what is wrong.",
    "demo": "Watch agents survive kill -9: offline, no key, half a minute.",
}


class LazyGroup(click.Group):
    """The command `name` is `name` in `asyncagents.cli.name` (or `name_`); help needs only the table."""

    def __call__(self, *args: Any, **more: Any) -> Any:
        """Run as a program of our own: nothing else of this user may look into its environment."""
        conceal_environment()
        return self.main(*args, **more)

    def main(self, *args: Any, **more: Any) -> Any:
        """Ends the process. Errors become a sentence and an exit code here, for every command."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        code: object = 0
        with ends_well():
            code = super().main(*args, **{**more, "standalone_mode": False})
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click has an end of its own for it
            raise NobodyReads from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(import_module(f"asyncagents.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="asyncagents", message="%(prog)s %(version)s")
def main() -> None:
    """Run LLM agents whose work survives a crash.

    Start with `asyncagents run "Hello"`; `asyncagents doctor` says what is missing. To see what it means
    that work survives, run `asyncagents demo`. To build on it, `import asyncagents`; the README has an
    example that runs as it stands.
    """
