"""Change a configuration file through the API: atomically, and only with effective settings."""

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from asyncagents.config.env import Environment
from asyncagents.config.file.check import check_data, inert_keys
from asyncagents.config.file.interpolate import tokens_in
from asyncagents.config.file.untrusted import filter_untrusted
from asyncagents.config.load import LoadedConfig, load_config
from asyncagents.config.paths import ConfigLocation, Family, config_folder, config_locations
from asyncagents.config.redacted_settings import REDACTED
from asyncagents.config.text_file import read_text
from asyncagents.config.tree import KeyPath, dotted_path
from asyncagents.config.trust import is_trusted, project_root
from asyncagents.errors import ConfigError

READ_AT_START = ("provider", "enabled_providers", "disabled_providers", "async_tools", "telemetry")
"""Keys that are read only when a process starts."""
_FILE = "asyncagents.json"

Verify: TypeAlias = Callable[[LoadedConfig], None]
"""Raises `ConfigError` if the merged configuration is invalid, though each file is valid."""


def change_project_config(
    environment: Environment, directory: Path, change: dict[str, Any], verify: Verify
) -> LoadedConfig:
    """Change the directory's strongest file, or create one. Raises `ConfigError`, and restores the file, if
    the change has no effect or makes the configuration invalid."""
    here = environment.folder(str(directory))
    own = {here / f".{family}" for family in ("opencode", "asyncagents")} | {here}
    found = [each for each in config_locations(environment, here) if each.scope == "project" and each.found]
    beside = [each for each in found if each.path is not None and each.path.parent in own]
    file = _last_path(beside) or here / _FILE
    _refuse_ineffective(change)
    if not change:
        return _load_verified(environment, here, verify)
    if not is_trusted(environment, here):
        _refuse_untrusted(change, file, project_root(environment, here))
    return _write_change(file, change, _family(file), lambda: _load_verified(environment, here, verify))


def change_global_config(environment: Environment, change: dict[str, Any], verify: Verify) -> LoadedConfig:
    """Change the user's own file, which applies everywhere; otherwise as `change_project_config`."""
    folder = config_folder(environment, "asyncagents")
    file = next((each for each in (folder / f"{_FILE}c", folder / _FILE) if each.exists()), folder / _FILE)
    _refuse_ineffective(change)
    if not change:
        return _load_verified(environment, Path("/"), verify)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be created ({error.strerror}): create it yourself") from error
    return _write_change(file, change, "asyncagents", lambda: _load_verified(environment, Path("/"), verify))


def _load_verified(environment: Environment, directory: Path, verify: Verify) -> LoadedConfig:
    loaded = load_config(environment, directory=directory)
    verify(loaded)
    return loaded


def _last_path(found: list[ConfigLocation]) -> Path | None:
    return found[-1].path if found else None


def _family(file: Path) -> Family:
    return "opencode" if file.name.startswith("opencode") else "asyncagents"


def _refuse_ineffective(change: dict[str, Any]) -> None:
    """Raise `ConfigError` for keys that would have no effect."""
    for key in READ_AT_START:
        if key in change:
            raise ConfigError(
                f"{key} is read when the server starts: write it in its file and start it again"
            )
    for path in sorted(inert_keys(change)):
        raise ConfigError(f"{dotted_path(path)} changes nothing in asyncagents: leave it out")
    for path, text in _texts(change):
        if REDACTED in text:
            raise ConfigError(f"{dotted_path(path)} is a redacted secret: leave it out")
        if tokens_in(text):
            raise ConfigError(
                f"{dotted_path(path)} refers to a variable or a file: write it in the file yourself"
            )


def _texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    match value:
        case str():
            yield path, value
        case dict():
            for key, below in value.items():
                yield from _texts(below, (*path, key))
        case list():
            for number, below in enumerate(value):
                yield from _texts(below, (*path, str(number)))
        case _:
            return


def _refuse_untrusted(change: dict[str, Any], file: Path, root: Path) -> None:
    for path, _ in filter_untrusted(change, file.parent, root).left_out:
        raise ConfigError(
            f"{dotted_path(path)} would be ignored: this project is not trusted; "
            f"run `asyncagents trust {root}` first"
        )


def _write_change(
    file: Path, change: dict[str, Any], family: Family, verified: Callable[[], LoadedConfig]
) -> LoadedConfig:
    """Write the change, and restore the previous content if the result is invalid."""
    try:
        with _lock_folder(file.parent):
            before = file.read_bytes() if file.exists() else None
            merged = _merge(_read_json(file), change)
            check_data(merged, str(file), family=family, secret=lambda path: True)
            _write_atomically(file, json.dumps(merged, indent=2, ensure_ascii=False).encode() + b"\n")
            try:
                return verified()
            except ConfigError:
                file.unlink() if before is None else _write_atomically(file, before)
                raise
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror}): make its folder yours to write"
        ) from error


def _read_json(file: Path) -> dict[str, Any]:
    """Read a file that can be rewritten without loss; raises `ConfigError` for links and comments."""
    if file.is_symlink():
        raise ConfigError(f"{file} is a link: change what it points to yourself")
    text = read_text(file)
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{file} has comments, which would be lost: change it yourself") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{file} is not a JSON object: correct it first")
    return value


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    laid = dict(under)
    for key, value in over.items():
        below = laid.get(key)
        laid[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return laid


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that concurrent changes do not overwrite each other."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_atomically(file: Path, content: bytes) -> None:
    """Replace the file atomically; its mode stays, and a new file is readable only by its owner."""
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(descriptor, "wb") as draft:
            os.fchmod(descriptor, mode)
            draft.write(content)
            draft.flush()
            os.fsync(descriptor)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
