"""The command line: a group that names its commands and loads one only when it is used."""

from importlib import import_module

import click

COMMANDS = {
    "demo": "Watch an agent survive kill -9: offline, no key, a few seconds.",
}


class LazyGroup(click.Group):
    """The command `name` is `name` in `asyncagents.cli.name`; help needs only the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"asyncagents.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="asyncagents", message="%(prog)s %(version)s")
def main() -> None:
    """Run LLM agents whose work survives a crash.

    To see what that means, run `asyncagents demo`. To build on it, `import asyncagents`;
    the README has an example that runs as it stands.
    """
