"""`asyncagents resume`: send a follow-up to a task, running or ended."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, form_option


@click.command()
@click.argument("id")
@click.argument("prompt", required=False)
@click.option("--key", metavar="TEXT", help="Send this once: the same key again sends nothing.")
@click.option("--detach", is_flag=True, help="Store the follow-up; do not run the task.")
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
    """Send a follow-up to a task and run it.

    The task keeps its history. An ended task begins another run, whose end sends its parent a notice; a
    running task reads the follow-up before its next step. The prompt is the argument, stdin, or both. ID may
    be a unique prefix, and `ses_` may be left out.

    If no process runs its tree, this one does until it rests, prints the task's answer, and exits with the
    codes of `asyncagents run`.
    """
    from asyncagents.cli.resume_task import Followup, carry_on
    from asyncagents.cli.run_order import whole_prompt

    follow = Followup(start=id, prompt=whole_prompt(prompt), key=key, detach=detach)
    data_directory(data_dir)
    context.exit(carry_on(follow, "json" if as_json else form, data_dir))
