"""`asyncagents tasks`: show sessions and their tasks as a tree, once or live."""

from pathlib import Path

import click

from asyncagents.cli.options import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)

LIMIT = 20


@click.command()
@click.argument("session", required=False)
@click.option("--watch", "-w", is_flag=True, help="Redraw until nothing is at work.")
@click.option("--all", "everything", is_flag=True, help="All directories, and all ended tasks.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="Maximum number of trees."
)
@json_option
@directory_option
@data_dir_option
def tasks(  # noqa: PLR0913  its options
    *,
    session: str | None,
    watch: bool,
    everything: bool,
    limit: int,
    as_json: bool,
    directory: Path,
    data_dir: Path | None,
) -> None:
    """Show the tasks of this directory as a tree, once or live.

    Below each session are the tasks that it launched: agent, state, tool calls, tokens, cost, duration, id.
    Of ended tasks only the newest are shown. SESSION is an id, or a unique prefix of one: then only that
    session is shown, with all below it.

    With --watch the tree is redrawn whenever it changes; without a terminal, a line is printed for each
    change. With --json, --watch prints the whole forest as one line whenever it changes.

    Exit codes: 0 nothing is at work; 2 wrong usage; 3 with --watch and without a terminal: no process does
    the work that is left.
    """
    from asyncagents.cli.inspect.draw_task_tree import TreeStyle
    from asyncagents.cli.inspect.read_task_tree import TaskScope
    from asyncagents.cli.inspect.task_watch import show_tasks

    scope = TaskScope(session, None if everything or session else project_folder(directory), limit)
    style = TreeStyle(everything=everything, as_json=as_json)
    show_tasks(data_directory(data_dir), scope, style, watch=watch)
