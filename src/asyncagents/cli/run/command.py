"""`asyncagents run`: send a prompt, print the answer; also continues sessions."""

import asyncio
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from asyncagents.cli.find_server import find_target_server
from asyncagents.cli.options import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.cli.run.arguments import RunArguments
from asyncagents.cli.terminal.screen import Screen


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "--model", "-m", metavar="PROVIDER/MODEL", help="The model; else the session's, else the config's."
)
@click.option("--agent", metavar="NAME", help="The agent; `build` unless the config sets another.")
@click.option(
    "--session", "-s", metavar="ID", help="Continue this session; a unique prefix of its id will do."
)
@click.option(
    "--continue", "-c", "newest", is_flag=True, help="Continue the newest session of the directory."
)
@click.option("--title", metavar="TEXT", help="Title of the new session.")
@click.option(
    "--file",
    "-f",
    "files",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Attach a text file, an image or a PDF of up to 10 MiB; repeatable.",
)
@click.option(
    "--allow",
    metavar="PERMISSION[:PATTERN]",
    multiple=True,
    help="Allow this in the new session unasked, even if the config or the agent denies it; repeatable.",
)
@click.option(
    "--deny",
    metavar="PERMISSION[:PATTERN]",
    multiple=True,
    help="Deny this in the new session; overrides --allow; repeatable.",
)
@click.option("--key", metavar="TEXT", help="Idempotency key: the same key again gets the same answer.")
@click.option("--detach", is_flag=True, help="Store the prompt and print the session's id; do not run it.")
@click.option(
    "--format",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="Streamed answer; one JSON object at the end; or one JSON event per line, the result last.",
)
@click.option(
    "--attach",
    metavar="URL",
    help="Run the session in this server; else in the server of this data, if one runs.",
)
@click.option(
    "--token", metavar="TOKEN", help="The server's token; else ASYNCAGENTS_TOKEN, else that of this data."
)
@click.option("--api", is_flag=True, help="Serve the HTTP API during the run, as `asyncagents serve` does.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65_535), help="With --api: as for `asyncagents serve`."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@directory_option
@data_dir_option
@click.pass_context
def run(context: click.Context, /, *, directory: Path, **given: Any) -> None:
    """Send a prompt and stream the answer.

    The prompt is the argument, stdin, or both. Only the answer goes to stdout; tools, reasoning, retries and
    notes go to stderr. Without a prompt, --session and --continue continue what was accepted before, for
    example after a crash.

    Permissions are asked at the terminal; without a terminal the ask stays open, and `asyncagents answer`
    answers it.

    If `asyncagents serve` runs on the same data, that server runs the session with its own configuration, and
    this command shows the progress. Ctrl-C cancels the session, a second Ctrl-C quits at once.

    Exit codes: 0 answered, 1 failed, 2 wrong usage, model, key, config or session, 3 waiting for a person or
    an outside result, 5 cancelled, 130 and 143 quit or stopped by a signal.
    """
    from asyncagents.cli.run.arguments import check_arguments, parse_arguments
    from asyncagents.cli.terminal.screen import Screen, log_to_screen

    named = context.get_parameter_source("directory") is ParameterSource.COMMANDLINE
    arguments = parse_arguments(directory=project_folder(directory), placed=named, **given)
    check_arguments(arguments)
    data_directory(arguments.data_dir)
    screen = Screen()
    log_to_screen(screen)
    context.exit(execute_run(arguments, screen))


def execute_run(arguments: RunArguments, screen: Screen) -> int:
    """Run and return the exit code; if the project must be trusted, offer that at the terminal."""
    from asyncagents.cli.project.trust_offer import with_trust  # start-up: as below

    text = arguments.format == "text"
    return with_trust(arguments.directory, screen, lambda: _execute_run(arguments, screen), offers=text)


def _execute_run(arguments: RunArguments, screen: Screen) -> int:
    data = data_directory(arguments.data_dir)
    server = find_target_server(data, arguments.attach, arguments.token)
    if server is None:
        from asyncagents.cli.run.local import load_project, run_locally  # start-up: as below

        return asyncio.run(run_locally(arguments, load_project(arguments, screen), screen))
    from asyncagents.cli.run.remote import run_remotely  # start-up: a client needs no runtime

    return asyncio.run(run_remotely(arguments, server, data, screen))
