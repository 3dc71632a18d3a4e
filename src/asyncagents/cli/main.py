"""The command line: a click group that imports a command only when it is used."""

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from asyncagents.cli.exit import OutputClosed, exit_on_error
from asyncagents.config.conceal import conceal_environment

COMMANDS = {
    "run": ("run.command:run", "Send a prompt and stream the answer."),
    "serve": ("serve.serve:serve", "Run all sessions of a data directory, and serve the HTTP API."),
    "acp": ("acp:acp", "Let an editor drive agents, by the Agent Client Protocol."),
    "worker": ("serve.worker:worker", "Run sessions of a shared database, beside other workers."),
    "migrate": ("serve.migrate:migrate", "Upgrade a shared database, or move a data directory into it."),
    "sessions": ("inspect.sessions:sessions", "List the sessions of this directory, newest first."),
    "show": ("inspect.show:show", "Print the transcript of a session."),
    "asks": ("inspect.asks:asks", "List open asks, the newest last."),
    "answer": ("act.answer:answer", "Answer an open ask and continue its session."),
    "approvals": ("project.approvals:approvals", "List approvals (answers `always`), newest first."),
    "pending": ("inspect.pending:pending", "List pending calls of async tools, oldest first."),
    "submit": ("act.submit:submit", "Submit the result of a pending call."),
    "tasks": ("inspect.tasks:tasks", "Show the tasks of this directory as a tree, once or live."),
    "task": ("inspect.task:task", "Show one task in full: its state, its result, its own tasks."),
    "cancel": ("act.cancel:cancel", "Cancel tasks, batches, sessions or pending calls."),
    "resume": ("act.resume:resume", "Send a follow-up to a task and run it."),
    "webhooks": ("inspect.webhooks:webhooks", "List outgoing webhooks that are owed, delivered or dead."),
    "why": ("inspect.why:why", "Explain why a session or task does not proceed."),
    "export": ("act.export:export", "Write sessions as JSON, for a backup or another machine."),
    "import": ("act.import_:import_", "Import exported sessions, also those of OpenCode."),
    "agents": ("project.agents:agents", "List the agents of this directory, or show one in full."),
    "tools": ("project.tools:tools", "List the tools of an agent and the rules for each."),
    "commands": ("project.commands:commands", "List the slash commands of this directory."),
    "mcp": ("project.mcp:mcp", "Show the MCP servers of this directory, or be one."),
    "plugins": ("project.plugins:plugins", "List the plugins of this directory with their state."),
    "models": ("project.models:models", "List the models that can be used, and why others cannot."),
    "config": ("project.config:config", "Show every setting and where it came from."),
    "trust": ("project.trust:trust", "Trust a project, so that all of its config files apply."),
    "doctor": ("doctor.command:doctor", "Check the installation and say how to fix what is wrong."),
    "demo": ("demo.command:demo", "Watch agents survive kill -9: offline, no key, half a minute."),
}
"""For each command: where it is defined below `asyncagents.cli`, and its line in the help."""


class LazyGroup(click.Group):
    """A group that imports the module of a command only when that command is used."""

    def __call__(self, *args: Any, **more: Any) -> Any:
        """Run the program; hide its environment from other processes of the same user first."""
        conceal_environment()
        return self.main(*args, **more)

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command and exit the process; errors of every command become a message and an exit code."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        code: object = 0
        with exit_on_error():
            code = super().main(*args, **{**more, "standalone_mode": False})
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would exit with code 1
            raise OutputClosed from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"asyncagents.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="asyncagents", message="%(prog)s %(version)s")
def main() -> None:
    """Run LLM agents whose work survives a crash.

    Start with `asyncagents run "Hello"`; `asyncagents doctor` says what is missing. `asyncagents demo` shows
    how work survives a crash. To use the library, `import asyncagents`; the README has a complete example.
    """
