"""`asyncagents resume`: more to do for a task that has ended, or a word to one that runs."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, form_option


@click.command()
@click.argument("id")
@click.argument("prompt", required=False)
@click.option("--key", metavar="TEXT", help="Send this once: the same key again sends nothing.")
@click.option("--detach", is_flag=True, help="Send it, and leave the work to others.")
@form_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@data_dir_option
@click.pass_context
def resume(  # noqa: PLR0913  its options
    context: click.Context,
    /,
    *,
    id: str,
    prompt: str | None,
    key: str | None,
    detach: bool,
    form: str,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Send a follow-up to a task, and work on it.

    The task knows all that was said before. One that has ended begins another run, and whoever launched it is
    told of its end; one that runs reads the follow-up before its next step. The prompt is the argument, what
    is piped in, or both. ID may be shortened, and `ses_` left out.

    If no process works on its tree, this one does until it rests, prints what the task says, and ends with
    the exit codes of `asyncagents run`.
    """
    from asyncagents.cli.resume_task import Followup, carry_on
    from asyncagents.cli.run_order import whole_prompt

    follow = Followup(start=id, prompt=whole_prompt(prompt), key=key, detach=detach)
    data_directory(data_dir)
    context.exit(carry_on(follow, "json" if as_json else form, data_dir))
