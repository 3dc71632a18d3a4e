"""`asyncagents submit`: submit the result of a pending call."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, form_option


@click.command()
@click.argument("id", metavar="PENDING_ID")
@click.argument("output", metavar="RESULT|-", required=False)
@click.option("--title", metavar="TEXT", default="", help="A short title for people.")
@click.option("--metadata", metavar="JSON", help="A JSON object, stored with the result.")
@click.option("--error", "failed", is_flag=True, help="Submit a failure; RESULT is the error message.")
@click.option("--run", "goes_on", is_flag=True, help="Then run the session, or show the server's progress.")
@form_option
@click.option("--json", "as_json", is_flag=True, help="Print the call as JSON; with --run, as --format json.")
@data_dir_option
@click.pass_context
def submit(  # noqa: PLR0913  its options
    context: click.Context,
    /,
    *,
    id: str,
    output: str | None,
    title: str,
    metadata: str | None,
    failed: bool,
    goes_on: bool,
    form: str,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Submit the result of a pending call.

    PENDING_ID is the id that the tool got and `asyncagents pending` lists, or a unique prefix of it. With -
    the result is read from stdin. It is stored when this command ends, once: submitting the same result again
    is not an error. The session continues in the server of this data or the process that runs it, else with
    the next `asyncagents run --session`, or here with --run.

    Exit codes: 0 accepted, now or before; 1 its tool must check the result and is not available; 2 no such
    call, or wrong usage; 4 it has another result already, or takes none; 6 its tool refused the result, and
    it still waits. With --run, those of `run`.
    """
    import asyncio

    from asyncagents.cli.submit_give import Given, carry_on, give, print_given, read_text

    given = Given(id, read_text(output), title=title, metadata=metadata, failed=failed)
    done = asyncio.run(give(data_directory(data_dir), given))
    if goes_on and not done.root.is_left_to_others:
        context.exit(carry_on(done, "json" if as_json else form, data_dir))
    print_given(done, as_json=as_json)
