"""`asyncagents run`: a prompt in, an answer out, and work that can be gone on with."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from asyncagents.cli.option import data_dir_option, data_directory, directory_option, project_folder


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "--model", "-m", metavar="PROVIDER/MODEL", help="Who answers; else the session's, else the config's."
)
@click.option("--agent", metavar="NAME", help="As which agent; `build` unless the config says otherwise.")
@click.option(
    "--session", "-s", metavar="ID", help="Go on with this session; the beginning of its id will do."
)
@click.option(
    "--continue", "-c", "newest", is_flag=True, help="Go on with the newest session of the directory."
)
@click.option("--title", metavar="TEXT", help="Name the new session.")
@click.option(
    "--file",
    "-f",
    "files",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Attach a text file, an image or a PDF of up to 10 MiB; may be given again.",
)
@click.option(
    "--allow",
    metavar="PERMISSION[:PATTERN]",
    multiple=True,
    help="Let the new session do this unasked, even what the config or the agent denies; may be given again.",
)
@click.option(
    "--deny",
    metavar="PERMISSION[:PATTERN]",
    multiple=True,
    help="Do not let it, whatever --allow says; may be given again.",
)
@click.option("--key", metavar="TEXT", help="Send this once: the same key again gets the same answer.")
@click.option(
    "--detach", is_flag=True, help="Store the prompt, print the session's id, and leave it at that."
)
@click.option(
    "--format",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="The answer as it is written; one object at the end; or an event a line, the result last.",
)
@click.option(
    "--attach",
    metavar="URL",
    help="Let the server there do the work; else that of this data, if one runs.",
)
@click.option("--token", metavar="TOKEN", help="The server's; else ASYNCAGENTS_TOKEN, else of this data.")
@click.option("--api", is_flag=True, help="Answer over HTTP while it works, as `asyncagents serve` does.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65_535), help="With --api: as for `asyncagents serve`."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@directory_option
@data_dir_option
@click.pass_context
def run(context: click.Context, /, *, directory: Path, **given: Any) -> None:
    """Send a prompt and watch the answer being written.

    The prompt is the argument, what is piped in, or both. Only the answer goes to stdout; tools, thoughts,
    retries and notes go to stderr. Without a prompt, --session and --continue go on with what was accepted
    before, as after a crash.

    What needs your leave is asked at the terminal; where there is none it waits, and `asyncagents answer`
    answers it.

    Where `asyncagents serve` works on the same data, that server does the work, and this shows it: its
    configuration counts. Ctrl-C cancels the session, a second one quits at once.

    Exit codes: 0 answered, 1 failed, 2 wrong usage, model, key, config or session, 3 it waits for somebody
    or something outside, 5 cancelled, 130 and 143 quit or stopped by a signal.
    """
    from asyncagents.cli.run_order import check, make_order
    from asyncagents.cli.run_there import carry_out
    from asyncagents.cli.screen import Screen, listen

    named = context.get_parameter_source("directory") is ParameterSource.COMMANDLINE
    order = make_order(directory=project_folder(directory), placed=named, **given)
    check(order)
    data_directory(order.data_dir)
    screen = Screen()
    listen(screen)
    context.exit(carry_out(order, screen))
