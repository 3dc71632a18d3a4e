"""`asyncagents trust`: trust a project, or stop trusting it."""

import json
from pathlib import Path

import click

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.options import json_option
from asyncagents.cli.project.trust_requests import escape_unprintable, settings_needing_trust
from asyncagents.cli.terminal.screen import plain
from asyncagents.config.env import system_environment
from asyncagents.config.trust import distrust_project, is_trusted, project_root, trusted_roots
from asyncagents.config.trust import trust_project as trust_project


@click.command()
@click.argument(
    "directory", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path()
)
@click.option("--remove", is_flag=True, help="Stop trusting it.")
@click.option("--list", "listing", is_flag=True, help="List trusted projects; change nothing.")
@json_option
def trust(*, directory: Path, remove: bool, listing: bool, as_json: bool) -> None:
    """Trust a project, so that all of its config files apply.

    Without trust they may choose models and be stricter, but not define a provider, plugin, server, command
    or file: their author could use these to steal your keys. What the project's files ask for is printed, and
    the root of its worktree is recorded; trust covers everything below it. For automation, set
    ASYNCAGENTS_TRUST=1.
    """

    if listing:
        print_trusted(as_json=as_json)
    elif remove:
        remove_trust(directory, as_json=as_json)
    else:
        add_trust(directory, as_json=as_json)


def print_trusted(*, as_json: bool) -> None:
    roots = [str(root) for root in trusted_roots(system_environment())]
    if as_json:
        click.echo(json.dumps({"trusted": roots}))
    for root in [] if as_json else roots:
        click.echo(plain(root))


def add_trust(directory: Path, *, as_json: bool) -> None:
    if not directory.is_dir():
        raise CliError(f"{directory} is not a directory", hint="pass the project's directory", code=USAGE)
    environment = system_environment()
    root = project_root(environment, directory)
    wishes = list(settings_needing_trust(environment, directory, root))
    trust_project(environment, root)
    if as_json:
        rows = [{"file": wish.file, "key": wish.key, "value": wish.value} for wish in wishes]
        click.echo(json.dumps({"root": str(root), "trusted": True, "asks_for": rows}))
        return
    for wish in wishes:
        words = f"{wish.file}: {wish.key} = {json.dumps(wish.value, ensure_ascii=False)}"
        click.echo(escape_unprintable(words))
    click.echo(plain(f"{root} is trusted; `asyncagents trust --remove` removes the trust"))


def remove_trust(directory: Path, *, as_json: bool) -> None:
    environment = system_environment()
    root = project_root(environment, directory)
    was = distrust_project(environment, root)
    still = [each for each in trusted_roots(environment) if each in root.parents]
    if still:
        raise CliError(
            f"{root} is still trusted, as it is below {still[0]}",
            hint=f"`asyncagents trust --remove {still[0]}`",
            code=USAGE,
        )
    if as_json:
        click.echo(json.dumps({"root": str(root), "trusted": is_trusted(environment, directory)}))
    else:
        click.echo(plain(f"{root} {'is no longer' if was else 'was not'} trusted"))
