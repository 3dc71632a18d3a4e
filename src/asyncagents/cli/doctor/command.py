"""`asyncagents doctor`: check the installation and print how to fix what is wrong."""

from pathlib import Path

import click

from asyncagents.cli.options import data_dir_option, directory_option, json_option, project_folder


@click.command()
@click.option(
    "--online",
    is_flag=True,
    help="Also query providers for their models and connect to MCP servers.",
)
@json_option
@directory_option
@data_dir_option
@click.pass_context
def doctor(
    context: click.Context, /, *, online: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """Check the installation and say how to fix what is wrong.

    Nothing is changed and, without --online, nothing is sent over the network. The exit code is 1 if a check
    fails.
    """
    import asyncio

    from asyncagents.cli.doctor.checks import check_all
    from asyncagents.cli.doctor.report import print_json, print_report

    found = asyncio.run(check_all(project_folder(directory), data_dir, online=online))
    print_json(found) if as_json else print_report(found)
    context.exit(1 if any(each.level == "fail" for each in found) else 0)
