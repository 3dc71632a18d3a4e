"""Find slash commands in the configuration and in markdown files, whose body is the prompt template."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from asyncagents.config.config import CommandConfig
from asyncagents.config.env import Environment
from asyncagents.config.file.check import check_data
from asyncagents.config.file.shape import CommandEntry
from asyncagents.config.markdown.agents import (
    AliasLookup,
    BrokenFile,
    DefinitionFolder,
    FoundDefinitions,
    definition_folders,
    definition_name,
    definition_text,
    distrust_warning,
    markdown_files,
    no_alias,
    parse_model,
    resolve_alias,
    trusted_folders,
)
from asyncagents.config.markdown.front_matter import BAD_HEAD, Data, FrontMatter, parse_front_matter
from asyncagents.config.tree import KeyPath
from asyncagents.config.trust import project_root
from asyncagents.config.untrusted_settings import NO_UNTRUSTED, UntrustedSettings
from asyncagents.errors import ConfigError, UntrustedInput

_NAME = re.compile(r"\w[\w.@/+-]{0,99}")
_KNOWN = {*CommandEntry.__struct_encode_fields__} - {"template"}
# Keys of Claude Code that are accepted and ignored.
_OF_CLAUDE = ("argument-hint", "allowed-tools", "disable-model-invocation")


class CommandDefinition(Struct, frozen=True, kw_only=True):
    name: str
    config: CommandConfig
    scope: Literal["config", "project", "user", "built in"]
    origin: Path | None = None
    """Its file; None for a command of the configuration."""


class FoundCommands(FoundDefinitions, frozen=True, kw_only=True):
    commands: dict[str, CommandDefinition] = field(default_factory=dict)
    untrusted_files: dict[str, Path] = field(default_factory=dict)
    """Command files of an untrusted project by command name; the files are not read."""
    untrusted: UntrustedSettings = UntrustedSettings()
    """These files, and the commands that an untrusted configuration names."""

    def why_broken(self, name: str) -> str | None:
        """Return why the file of this command is invalid; None if there is no such file."""
        name = name.replace(":", "/")
        for each in self.broken:
            if each.path.with_suffix("").as_posix().endswith(f"/{name}"):
                return f"{each.path} {each.reason}"
        return None

    def check_trust(self, name: str) -> None:
        """Raise `UntrustedInput` if the command is unknown only because its file is not trusted."""
        fact = self.untrusted.fact(f"command '/{name}'", "command", name.replace(":", "/"))
        if fact is not None:
            raise UntrustedInput(self.untrusted.sentence(fact), fact=fact)

    def get(self, name: str) -> CommandDefinition | None:
        """Find a command by name; one in a folder also by Claude Code's form `folder:name`."""
        return self.commands.get(name) or self.commands.get(name.replace(":", "/"))


def find_commands(
    environment: Environment,
    directory: Path,
    *,
    trusted: bool,
    configured: Mapping[str, CommandConfig],
    untrusted: UntrustedSettings = NO_UNTRUSTED,
    alias: AliasLookup = no_alias,
) -> FoundCommands:
    """Find commands; the configured one of a name wins, then the nearest.

    Files of an untrusted project are not read.
    """
    commands = {
        name: CommandDefinition(name=name, config=config, scope="config")
        for name, config in configured.items()
    }
    folders = definition_folders(environment, directory, "command")
    searched, left_out = trusted_folders(folders, trusted=trusted)
    broken, warnings = _add_commands(commands, searched, alias)
    strange = [(folder, path) for folder in left_out for path in markdown_files(folder.path, [])]
    root = project_root(environment, directory)
    warnings += distrust_warning([path for _, path in strange], "command", root)
    named: dict[KeyPath, str] = {
        ("command", definition_name(*each)): str(each[1]) for each in reversed(strange)
    }
    return FoundCommands(
        commands=commands,
        untrusted_files={definition_name(*each): each[1] for each in reversed(strange)},
        untrusted=UntrustedSettings(str(root), {**named, **untrusted.named}),
        broken=tuple(broken),
        warnings=tuple(warnings),
    )


def _add_commands(
    commands: dict[str, CommandDefinition], folders: Sequence[DefinitionFolder], alias: AliasLookup
) -> tuple[list[BrokenFile], list[str]]:
    """Add the commands of the folders whose names are free; return invalid files and warnings."""
    broken: list[BrokenFile] = []
    warnings: list[str] = []
    for folder in folders:
        for path in markdown_files(folder.path, warnings):
            try:
                command, odd = _read_command(path, folder, alias)
            except ConfigError as error:
                broken.append(BrokenFile(path, str(error)))
                continue
            if commands.setdefault(command.name, command) is command:
                warnings += [f"{path}: {warning}" for warning in odd]
    return broken, warnings


def _read_command(
    path: Path, folder: DefinitionFolder, alias: AliasLookup
) -> tuple[CommandDefinition, list[str]]:
    name = definition_name(folder, path)
    if not _NAME.fullmatch(name):
        raise ConfigError("has a name that cannot be typed: use letters, digits, - and _")
    matter = _read_matter(path)
    if not matter.body:
        raise ConfigError("has no text: write the prompt that the command stands for")
    data, warnings = _known_keys(matter.data, alias, claude=folder.claude)
    config = _build_config(name, data, matter.body)
    return CommandDefinition(name=name, config=config, scope=folder.scope, origin=path), warnings


def _read_matter(path: Path) -> FrontMatter:
    """Read the optional front matter and the body."""
    text = definition_text(path)
    return parse_front_matter(text) or FrontMatter({}, text.replace("\r\n", "\n").strip())


def _known_keys(data: Data, alias: AliasLookup, *, claude: bool) -> tuple[Data, list[str]]:
    """Return the known keys, and warnings about the others."""
    warnings = [f"the key {key} of Claude Code is ignored here" for key in _OF_CLAUDE if key in data]
    warnings += [
        f"the key {key} is unknown and is ignored: remove it or correct its name"
        for key in data
        if key not in _KNOWN and key not in _OF_CLAUDE
    ]
    known = {key: value for key, value in data.items() if key in _KNOWN}
    if not claude:
        return known, warnings
    known, odd = resolve_alias(known, alias)
    return known, [*warnings, *odd]


def _build_config(name: str, data: Data, template: str) -> CommandConfig:
    """Check the front matter as an entry under `command` of a configuration file."""
    checked, _ = check_data({"command": {name: data}}, BAD_HEAD, family="asyncagents", secret=lambda _: False)
    known = checked["command"][name]
    return msgspec.convert(
        {**known, "template": template, "model": parse_model(known.get("model"))}, CommandConfig
    )
