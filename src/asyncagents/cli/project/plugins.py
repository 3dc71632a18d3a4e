"""`asyncagents plugins`: list the plugins of a directory with their hooks and errors."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from asyncagents.cli.options import data_dir_option, directory_option, json_option, project_folder
from asyncagents.cli.project.agents import print_warnings
from asyncagents.cli.project.open import open_project
from asyncagents.cli.terminal.screen import print_table
from asyncagents.engine.workplace.hooks import PluginReport


@click.command()
@json_option
@directory_option
@data_dir_option
def plugins(*, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """List the plugins of this directory with their state.

    They are imported and started, as for a session here. One that cannot be used is listed with its error;
    the others work. Plugins of a project that is not trusted are not imported.
    """
    import asyncio

    asyncio.run(show_plugins(project_folder(directory), data_dir, as_json=as_json))


async def show_plugins(directory: Path, data_dir: Path | None, *, as_json: bool) -> None:
    async with open_project(directory, data_dir) as opened:
        reports = opened.project.hooks.reports()
        click.echo(msgspec.json.encode(reports)) if as_json else _print(reports)
        shown = {_failure(report) for report in reports if report.error}
        print_warnings([warning for warning in opened.warnings if warning not in shown])


def _failure(report: PluginReport) -> str:
    """Return the project's warning about a failed plugin: the table shows it already."""
    return f"plugin {report.name} ({report.origin}) {report.error}"


def _print(reports: Sequence[PluginReport]) -> None:
    if not reports:
        click.echo("There are no plugins here; docs/plugins.md says how to write one.")
        return
    print_table([("plugin", "from", ""), *(_cells(report) for report in reports)], flexible=2)


def _cells(report: PluginReport) -> tuple[str, ...]:
    origin = report.origin if report.scope != "project" else f"{report.origin} (project)"
    if report.error is not None:
        return report.name, origin, f"error: {report.error}"
    features = [hook.hook if not hook.off else f"{hook.hook} (off)" for hook in report.hooks]
    features += [
        f"tool {name} (instead of the built-in one)" if name in report.overrides else f"tool {name}"
        for name in report.tools
    ]
    return report.name, origin, ", ".join(features) or "nothing"
