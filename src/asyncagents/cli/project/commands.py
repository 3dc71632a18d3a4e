"""`asyncagents commands`: list the slash commands of a directory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.options import data_dir_option, directory_option, json_option, project_folder
from asyncagents.cli.project.agents import print_warnings
from asyncagents.cli.project.open import open_project
from asyncagents.cli.terminal.screen import plain, print_table
from asyncagents.config.markdown.commands import FoundCommands
from asyncagents.engine.input.intake import CommandInfo, command_infos


@click.command()
@json_option
@directory_option
@data_dir_option
def commands(*, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """List the slash commands of this directory.

    `asyncagents run "/name arguments"` runs one. Unusable commands are listed last, with the reason.
    """
    import asyncio

    asyncio.run(show_commands(project_folder(directory), data_dir, as_json=as_json))


class CommandRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command as `--json` prints it; `why_not`: why it cannot be used."""

    name: str
    source: str
    description: str | None = None
    hints: tuple[str, ...] = ()
    agent: str | None = None
    model: str | None = None
    subtask: bool | None = None
    why_not: str | None = None


async def show_commands(directory: Path, data_dir: Path | None, *, as_json: bool) -> None:
    async with open_project(directory, data_dir) as opened:
        sources = opened.project.prompt_sources
        assert sources is not None, "a project has one"
        rows = [*map(_row, command_infos(sources)), *_unusable(sources.commands)]
        if as_json:
            click.echo(msgspec.json.encode(rows))
        else:
            _print_rows(rows)
            print_warnings(sources.commands.warnings)


def _row(info: CommandInfo) -> CommandRow:
    return CommandRow(
        name=info.name,
        source=info.source,
        description=info.description,
        hints=info.hints,
        agent=info.agent,
        model=info.model,
        subtask=info.subtask,
    )


def _unusable(found: FoundCommands) -> Iterator[CommandRow]:
    for each in found.broken:
        yield CommandRow(name=each.path.stem, source=str(each.path), why_not=each.reason)
    for name, path in sorted(found.untrusted_files.items()):
        yield CommandRow(name=name, source=str(path), why_not="its project is not trusted")


def _print_rows(rows: Sequence[CommandRow]) -> None:
    usable = [row for row in rows if row.why_not is None]
    head = ("command", "arguments", "agent", "from", "")
    print_table([head, *(_cells(row) for row in usable)], flexible=4)
    for row in rows:
        if row.why_not is not None:
            click.echo(f"not usable: {plain(row.source)}: {plain(row.why_not)}", err=True)


def _cells(row: CommandRow) -> tuple[str, ...]:
    agent = f"{row.agent or 'general'}, as a task" if row.subtask else row.agent or "-"
    return f"/{row.name}", " ".join(row.hints) or "-", agent, row.source, row.description or ""
