"""Finds slash commands: in the configuration, and in markdown files, whose text is a prompt's template."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from asyncagents.config.agents import (
    Broken,
    Folder,
    Found,
    definition_folders,
    definition_text,
    distrust_warning,
    markdown_files,
    named_model,
    trusted_folders,
)
from asyncagents.config.check import check
from asyncagents.config.config import CommandConfig
from asyncagents.config.env import Environment
from asyncagents.config.front_matter import BAD_HEAD, Data, Matter, parse
from asyncagents.config.shape import CommandEntry
from asyncagents.config.trust import project_root
from asyncagents.errors import ConfigError

_NAME = re.compile(r"\w[\w.@/+-]{0,99}")
_KNOWN = {*CommandEntry.__struct_encode_fields__} - {"template"}
# Claude Code's own: a file that was written for it is no worse for having them.
_OF_CLAUDE = ("argument-hint", "allowed-tools", "disable-model-invocation")
# What people write behind it, such as `[number] [title]`, is often no YAML.
_HINT = re.compile(r"(argument-hint\s*:\s*)([^\s|>].*)")


class Command(Struct, frozen=True, kw_only=True):
    name: str
    config: CommandConfig
    scope: Literal["config", "project", "user", "built in"]
    origin: Path | None = None
    """Its file; none if the configuration has it, which tells itself where from."""


class FoundCommands(Found, frozen=True, kw_only=True):
    commands: dict[str, Command] = field(default_factory=dict)
    strange: dict[str, Path] = field(default_factory=dict)
    """Files of a project that is not trusted, by the name they would have; nobody has read them."""

    def why_not(self, name: str) -> str | None:
        """Why there is no such command though somebody wrote one; None: nobody did."""
        name = name.replace(":", "/")
        for each in self.broken:
            if each.path.with_suffix("").as_posix().endswith(f"/{name}"):
                return f"{each.path} {each.reason}"
        if name in self.strange:
            return f"{self.strange[name]} counts once the project is trusted: `asyncagents trust` does that"
        return None

    def get(self, name: str) -> Command | None:
        """By its name; a command in a folder also as Claude Code calls it, `folder:name`."""
        return self.commands.get(name) or self.commands.get(name.replace(":", "/"))


def find_commands(
    environment: Environment, directory: Path, *, trusted: bool, configured: Mapping[str, CommandConfig]
) -> FoundCommands:
    """The configured ones, then the nearest of each name.

    The files of a project that is not trusted are not even read.
    """
    warnings: list[str] = []
    broken: list[Broken] = []
    commands = {
        name: Command(name=name, config=config, scope="config") for name, config in configured.items()
    }
    folders = definition_folders(environment, directory, "command")
    searched, left_out = trusted_folders(folders, trusted=trusted)
    for folder in searched:
        for path in markdown_files(folder.path, warnings):
            try:
                command, odd = _read(path, folder)
            except ConfigError as error:
                broken.append(Broken(path, str(error)))
                continue
            if commands.setdefault(command.name, command) is command:
                warnings += [f"{path}: {warning}" for warning in odd]
    strange = [(folder, path) for folder in left_out for path in markdown_files(folder.path, [])]
    paths = [path for _, path in strange]
    warnings += distrust_warning(paths, "command", project_root(environment, directory))
    return FoundCommands(
        commands=commands,
        strange={_name(path, folder): path for folder, path in reversed(strange)},
        broken=tuple(broken),
        warnings=tuple(warnings),
    )


def _name(path: Path, folder: Folder) -> str:
    return path.relative_to(folder.path).with_suffix("").as_posix()


def _read(path: Path, folder: Folder) -> tuple[Command, list[str]]:
    name = _name(path, folder)
    if not _NAME.fullmatch(name):
        raise ConfigError("has a name that cannot be typed: use letters, digits, - and _")
    matter = _matter(path)
    if not matter.body:
        raise ConfigError("has no text: write the prompt that the command stands for")
    data, warnings = _known(matter.data, claude=folder.claude)
    config = _config(name, data, matter.body)
    return Command(name=name, config=config, scope=folder.scope, origin=path), warnings


def _matter(path: Path) -> Matter:
    """The head, which may be missing, and the text."""
    text = definition_text(path)
    return parse(_with_quoted_hint(text)) or Matter({}, text.replace("\r\n", "\n").strip())


def _with_quoted_hint(text: str) -> str:
    lines = text.split("\n")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            break
        if hint := _HINT.fullmatch(line.rstrip()):
            lines[number] = hint[1] + msgspec.json.encode(hint[2]).decode()
    return "\n".join(lines)


def _known(data: Data, *, claude: bool) -> tuple[Data, list[str]]:
    """What means something here, and a word on the rest."""
    warnings = [f"the key {key} of Claude Code counts for nothing here" for key in _OF_CLAUDE if key in data]
    warnings += [
        f"the key {key} is unknown and counts for nothing: remove it or correct its name"
        for key in data
        if key not in _KNOWN and key not in _OF_CLAUDE
    ]
    known = {key: value for key, value in data.items() if key in _KNOWN}
    model = known.get("model")
    if claude and isinstance(model, str) and "/" not in model:
        del known["model"]
        if model != "inherit":
            warnings.append(f"the model {model!r} names no provider: the session's own model is used")
    return known, warnings


def _config(name: str, data: Data, template: str) -> CommandConfig:
    """Checked as the same would be under `command` in a file of configuration."""
    checked, _ = check({"command": {name: data}}, BAD_HEAD, family="asyncagents", secret=lambda _: False)
    known = checked["command"][name]
    return msgspec.convert(
        {**known, "template": template, "model": named_model(known.get("model"))}, CommandConfig
    )
