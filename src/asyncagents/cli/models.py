"""`asyncagents models`: list models with limits and prices, and why some cannot be used."""

from pathlib import Path

import click

from asyncagents.cli.option import directory_option, json_option, project_folder


@click.command()
@click.argument("search", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Include models that cannot be used, with the reason."
)
@json_option
@directory_option
def models(*, search: str | None, everything: bool, as_json: bool, directory: Path) -> None:
    """List the models that can be used, and why others cannot.

    SEARCH lists only names that contain it, usable or not. Context and output are in tokens, prices in US
    dollars per million tokens of input and of output. Nothing is sent over the network.
    """
    from asyncagents.cli.models_list import print_json, print_list
    from asyncagents.cli.screen import plain
    from asyncagents.config.env import system_environment
    from asyncagents.config.load import load
    from asyncagents.llm.roster import Roster

    folder = project_folder(directory)
    loaded = load(system_environment(), directory=folder)
    for warning in loaded.warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    roster = Roster(loaded.config)
    found = [
        each
        for each in roster.models()
        if (search or "").lower() in f"{each.ref.provider_id}/{each.ref.model_id}"
    ]
    if as_json:
        print_json(found, roster.default_model())
    else:
        print_list(found, roster.default_model(), everything=everything or search is not None)
