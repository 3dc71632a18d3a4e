"""Options that several commands share, and how to resolve them."""

from pathlib import Path

import click

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.config.env import system_environment
from asyncagents.config.paths import data_folder

directory_option = click.option(
    "--directory",
    "-C",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="Work in this project instead of the current directory.",
)
data_dir_option = click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory; else ASYNCAGENTS_DATA_DIR, else the platform's default.",
)
form_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="Output format, as for `asyncagents run`.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def project_folder(directory: Path) -> Path:
    """Resolve a project directory, so that one project has one path."""
    folder = directory.resolve()
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise CliError(
            f"the name of the directory {str(folder)!r} is not UTF-8",
            hint="rename it, or work from another one with --directory",
            code=USAGE,
        ) from error
    return folder


def data_directory(chosen: Path | None) -> Path:
    """Resolve the data directory: --data-dir, the environment or the default, never a config file."""
    folder = data_folder(system_environment(), chosen)[0]
    if folder.exists() and not folder.is_dir():
        raise CliError(
            f"the data directory {folder} is not a directory",
            hint="choose another one with --data-dir or ASYNCAGENTS_DATA_DIR",
            code=USAGE,
        )
    return folder
