"""`asyncagents cancel`: cancel tasks, batches, sessions or pending calls by id."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@data_dir_option
@click.pass_context
def cancel(context: click.Context, /, *, ids: tuple[str, ...], as_json: bool, data_dir: Path | None) -> None:
    """Cancel tasks, batches, sessions or pending calls.

    ID is a task, a session, a batch (`bat_…`) or a pending call (`tool_…`), or a unique prefix of one. All
    sessions below it are cancelled, too. The parent of a cancelled task gets a notice, and the process that
    runs the task stops. A cancelled pending call fails, and its session continues. If one of the ids is
    wrong, nothing is cancelled.

    Exit codes: 0 cancelled, or nothing was at work; 2 no such id; 3 the cancel is stored, but a process has
    not stopped yet.
    """
    import asyncio

    from asyncagents.cli.cancel_end import end_all, exit_code, print_ends, print_json
    from asyncagents.cli.look import look
    from asyncagents.cli.task_find import unknown

    done = asyncio.run(look(data_directory(data_dir), lambda runtime: end_all(runtime, ids), nothing=None))
    if done is None:
        raise unknown(ids[0])
    print_json(done) if as_json else print_ends(done)
    context.exit(exit_code(done))
