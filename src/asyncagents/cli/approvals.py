"""`asyncagents approvals`: list approvals of a project, and withdraw them."""

from pathlib import Path

import click

from asyncagents.cli.option import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)


@click.group(invoke_without_command=True)
@click.option("--all", "everywhere", is_flag=True, help="List those of all directories.")
@json_option
@directory_option
@data_dir_option
@click.pass_context
def approvals(
    context: click.Context, /, *, everywhere: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List approvals (answers `always`), newest first.

    An approval allows calls of its project without asking. `asyncagents approvals withdraw ID` deletes one;
    every process, servers included, asks again at the next call.
    """
    if context.invoked_subcommand is not None:
        return
    import asyncio

    from asyncagents.cli.approvals_list import NONE, listed, print_json, print_rows
    from asyncagents.cli.look import look

    where = None if everywhere else project_folder(directory)
    found = asyncio.run(look(data_directory(data_dir), lambda runtime: listed(runtime, where), nothing=NONE))
    print_json(found) if as_json else print_rows(found, where)


@approvals.command()
@click.argument("ids", metavar="ID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Withdraw all approvals of this directory.")
@directory_option
@data_dir_option
def withdraw(*, ids: tuple[str, ...], everything: bool, directory: Path, data_dir: Path | None) -> None:
    """Withdraw approvals, so that their calls ask again.

    ID is an id that `asyncagents approvals` lists, of any directory, or a unique prefix of one. If one of the
    ids is wrong, none is withdrawn.
    """
    import asyncio

    from asyncagents.cli.approvals_list import chosen, print_withdrawn, take_back
    from asyncagents.cli.look import look

    wanted = chosen(ids, project_folder(directory) if everything else None)
    data = data_directory(data_dir)
    print_withdrawn(asyncio.run(look(data, lambda runtime: take_back(runtime, wanted), nothing=None)), wanted)
