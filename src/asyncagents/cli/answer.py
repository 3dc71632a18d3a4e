"""`asyncagents answer`: answer an ask by its id, then continue its session."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, form_option


@click.command()
@click.argument("id")
@click.argument("words", metavar="once|always|approve|reject|TEXT...", nargs=-1, required=True)
@click.option(
    "--message", metavar="TEXT", default="", help="With reject: tell the model why; its turn goes on."
)
@click.option("--by", metavar="NAME", default="", help="Who answers; stored with the answer.")
@click.option("--input", "given", metavar="JSON", help="With once: approve these arguments instead.")
@click.option("--detach", is_flag=True, help="Store the answer; do not run the session.")
@form_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@data_dir_option
@click.pass_context
def answer(  # noqa: PLR0913  its options
    context: click.Context,
    /,
    *,
    id: str,
    words: tuple[str, ...],
    message: str,
    by: str,
    given: str | None,
    detach: bool,
    form: str,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Answer an open ask and continue its session.

    ID is an id that `asyncagents asks` lists, or a unique prefix of one. A permission takes once, always or
    reject. A question takes its answer, the number of an option or a text, one argument for each question;
    reject refuses to answer. An approval takes approve or reject, either with a --message.

    If no process runs the session, this one runs its tree until it rests, as `asyncagents run --session`
    does, with the same exit codes; if a server works on this data, its progress is shown.
    Exit code 2: the id is unknown, or has another answer already.
    """
    import asyncio

    from asyncagents.cli.answer_give import Given, carry_on, give

    reply = Given(id, words, message=message, input=given, by=by)
    done = asyncio.run(give(data_directory(data_dir), reply))
    if detach or done.is_left_to_others:
        click.echo(done.text(detach=detach), err=True)
        context.exit(0)
    context.exit(carry_on(done, "json" if as_json else form, data_dir))
