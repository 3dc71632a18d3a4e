"""`asyncagents cancel`: an end, from anywhere, to what is at work."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@data_dir_option
@click.pass_context
def cancel(context: click.Context, /, *, ids: tuple[str, ...], as_json: bool, data_dir: Path | None) -> None:
    """End tasks, batches, sessions, all below them, or pending calls.

    ID is a task, a session, a batch (`bat_…`) or a pending call (`tool_…`), and may be shortened. Whoever
    launched a task is told of its end; whoever works on it stops. A pending call has failed as cancelled, and
    its session goes on. If one of the ids is wrong, nothing is ended.

    Exit codes: 0 ended, or there was nothing to end; 2 no such id; 3 the end is on the disk, but a process
    has not stopped yet.
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
