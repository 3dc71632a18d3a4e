"""Replace `{env:NAME}` and `{file:path}` in the strings of one configuration file."""

import re
from collections.abc import Set
from pathlib import Path
from typing import Any

from asyncagents.config.env import Environment
from asyncagents.config.file.redact import is_secret_value
from asyncagents.config.text_file import read_text
from asyncagents.config.tree import KeyPath, dotted_path
from asyncagents.errors import ConfigError

_ENV = re.compile(r"\{env:([^{}]+)\}")
# One pass: replaced text is not interpolated again. A path may contain variables.
_TOKEN = re.compile(rf"{_ENV.pattern}|\{{file:((?:{_ENV.pattern}|[^{{}}])+)\}}")


def tokens_in(value: Any) -> list[str]:
    """List the tokens of a string as written; none for other values."""
    return [match[0] for match in _TOKEN.finditer(value)] if isinstance(value, str) else []


class Interpolation:
    """The interpolation of one file, with the variables and files that it used."""

    def __init__(
        self, environment: Environment, *, folder: Path, label: str, skip: Set[KeyPath] = frozenset()
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._label = label
        self._skip = skip
        self.used: dict[KeyPath, tuple[str, ...]] = {}
        """The tokens in each value, as written."""
        self.variables: set[str] = set()
        self.files: dict[str, bool] = {}
        """The included files, and whether their text is a secret."""
        self.warnings: list[str] = []

    def fill(self, value: Any, path: KeyPath = ()) -> Any:
        """Replace the tokens in every string of a value, except below the skipped paths.

        Relative paths start at the file's own folder.
        """
        if path in self._skip:
            return value
        match value:
            case dict():
                return {key: self.fill(below, (*path, key)) for key, below in value.items()}
            case list():
                return [self.fill(item, path) for item in value]
            case str():
                return _TOKEN.sub(lambda match: self._replace_token(match, path), value)
            case _:
                return value

    def _replace_token(self, match: re.Match[str], path: KeyPath) -> str:
        self.used[path] = (*self.used.get(path, ()), match[0])
        if match[1]:
            return self._read_variable(match[1], path)
        return self._read_file(match[2], path)

    def _read_variable(self, name: str, path: KeyPath) -> str:
        self.variables.add(name)
        value = self._environment.get(name)
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ConfigError(
                f"{self._label}: {dotted_path(path)} uses {{env:{name}}}, "
                "which is not UTF-8 text: set it again"
            )
        if not value:
            self.warnings.append(
                f"{self._label}: {dotted_path(path)} uses {{env:{name}}}, "
                "which is not set: it counts as empty"
            )
        return value

    def _read_file(self, text: str, path: KeyPath) -> str:
        name = _ENV.sub(lambda match: self._read_variable(match[1], path), text)
        file = self._environment.folder(name, base=self._folder)
        try:
            found = read_text(file)
        except ConfigError as error:
            raise ConfigError(
                f"{self._label}: {dotted_path(path)} uses {{file:{text}}}, but {error}"
            ) from error
        if found is None:
            raise ConfigError(
                f"{self._label}: {dotted_path(path)} uses {{file:{text}}}, but {file} does not exist: "
                f"create it or correct the path"
            )
        secret = bool(path) and is_secret_value(path, found.strip())
        self.files[str(file)] = self.files.get(str(file), False) or secret
        return found.strip()
