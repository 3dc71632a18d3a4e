"""Prints plugins with their hooks and tools, as a table or JSON."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from asyncagents.cli.agents_list import tell_odd
from asyncagents.cli.place import open_place
from asyncagents.cli.screen import print_table
from asyncagents.engine.hook import PluginReport


async def show_plugins(directory: Path, data_dir: Path | None, *, as_json: bool) -> None:
    async with open_place(directory, data_dir) as opened:
        reports = opened.project.hooks.reports()
        click.echo(msgspec.json.encode(reports)) if as_json else _print(reports)
        shown = {_failure(report) for report in reports if report.error}
        tell_odd([warning for warning in opened.warnings if warning not in shown])


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
    said = [hook.hook if not hook.off else f"{hook.hook} (off)" for hook in report.hooks]
    said += [
        f"tool {name} (instead of the built-in one)" if name in report.overrides else f"tool {name}"
        for name in report.tools
    ]
    return report.name, origin, ", ".join(said) or "nothing"
