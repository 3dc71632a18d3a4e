"""`asyncagents config`: show every setting with its origin."""

import json
from pathlib import Path
from typing import Any

import click

from asyncagents.cli.exit import BadConfig
from asyncagents.cli.options import data_dir_option, directory_option
from asyncagents.cli.terminal.screen import plain
from asyncagents.config.env import system_environment
from asyncagents.config.file.schema import config_schema_text
from asyncagents.config.load import LoadedConfig, LoadedSetting, load_config
from asyncagents.config.paths import ConfigLocation, config_locations
from asyncagents.errors import ConfigError

WIDEST_VALUE = 60


@click.command()
@click.option("--json", "as_json", is_flag=True, help='Print {key: {"value": …, "origin": …}}.')
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the files.")
@click.option("--paths", is_flag=True, help="List the config file paths, in ascending precedence.")
@directory_option
@data_dir_option
def config(*, as_json: bool, schema: bool, paths: bool, directory: Path, data_dir: Path | None) -> None:
    """Show every setting and where it came from.

    Secrets are shown as stars.
    """
    if schema:
        click.echo(config_schema_text(), nl=False)
        return
    try:
        environment = system_environment()
        if paths:
            _print_paths(config_locations(environment, directory))
            return
        loaded = load_config(environment, directory=directory, data_dir=data_dir)
    except ConfigError as error:
        raise BadConfig(str(error)) from error
    _print_json(loaded) if as_json else _print_table(loaded.settings)
    for warning in loaded.warnings:
        click.echo(f"warning: {plain(warning)}", err=True)


def _print_paths(found: tuple[ConfigLocation, ...]) -> None:
    for location in found:
        click.echo(f"{'read' if location.found else '-':<5} {location.scope:<9} {location.label}")


def _print_json(loaded: LoadedConfig) -> None:
    rows = {setting.key: {"value": setting.value, "origin": setting.origin} for setting in loaded.settings}
    click.echo(json.dumps(rows, indent=2, ensure_ascii=False))


def _print_table(settings: tuple[LoadedSetting, ...]) -> None:
    rows = [(setting.key, _short(setting.value), setting.origin) for setting in settings]
    keys = max(len(key) for key, _, _ in rows)
    values = max(len(value) for _, value, _ in rows)
    for key, value, origin in rows:
        click.echo(plain(f"{key:<{keys}}  {value:<{values}}  {origin}"))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WIDEST_VALUE else f"{text[: WIDEST_VALUE - 1]}…"
