"""Locations of configuration, the weakest first, and the data folder."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.config.env import Environment

Family: TypeAlias = Literal["opencode", "asyncagents"]
FAMILIES: tuple[Family, ...] = ("opencode", "asyncagents")
"""In ascending strength: every asyncagents file wins over every OpenCode file."""

DATA_VARIABLE = "ASYNCAGENTS_DATA_DIR"


class ConfigLocation(Struct, frozen=True, kw_only=True):
    """A location that may hold configuration: a file, or a variable that holds the text."""

    family: Family
    scope: Literal["global", "project", "variable"]
    path: Path | None = None
    variable: str | None = None
    """Names the file, or holds the text if there is no file."""
    found: bool

    @property
    def label(self) -> str:
        """The location as shown to people."""
        return str(self.path) if self.path else f"${self.variable}"


def config_locations(environment: Environment, directory: Path) -> tuple[ConfigLocation, ...]:
    """List every location, found or not; a later one wins."""
    return tuple(
        location
        for family in FAMILIES
        for location in (
            *_global_locations(environment, family),
            *_project_locations(environment, family, directory),
            *_variable_locations(environment, family),
        )
    )


def config_folder(environment: Environment, family: Family) -> Path:
    return _xdg_folder(environment, "XDG_CONFIG_HOME", environment.home / ".config") / family


def data_folder(environment: Environment, chosen: Path | None) -> tuple[Path, str]:
    """Return the data folder and the origin of this choice."""
    if chosen is not None:
        return environment.folder(str(chosen)), "--data-dir"
    if text := environment.get(DATA_VARIABLE):
        return environment.folder(text), f"${DATA_VARIABLE}"
    local = environment.home / ".local" / "share"
    if environment.platform == "darwin":
        local = environment.home / "Library" / "Application Support"
    folder = _xdg_folder(environment, "XDG_DATA_HOME", local)
    return folder / "asyncagents", "default" if folder == local else "$XDG_DATA_HOME"


def secret_paths(environment: Environment, root: Path, files: Iterable[str]) -> tuple[Path, ...]:
    """List the user's own configuration, which may hold keys: folders, and files outside the project.

    `files`: the files that configuration includes.
    """
    named = [
        location.path
        for family in FAMILIES
        for location in _variable_locations(environment, family)
        if location.path
    ]
    folders = [config_folder(environment, family) for family in FAMILIES]
    return (*folders, *(file for file in (*named, *map(Path, files)) if not file.is_relative_to(root)))


def absolute_variables(environment: Environment) -> dict[str, str]:
    """Return the variables, those with paths made absolute, for a process in another current directory."""
    names = (DATA_VARIABLE, *(f"{family.upper()}_CONFIG" for family in FAMILIES))
    paths = {name: str(environment.folder(text)) for name in names if (text := environment.get(name))}
    return {**environment.variables, **paths}


def worktree_folders(directory: Path) -> list[Path]:
    """List the folders from the worktree's root down to `directory`; without a worktree, only `directory`."""
    upwards = [directory, *directory.parents]
    for steps, folder in enumerate(upwards):
        if _is_worktree(folder):
            return upwards[steps::-1]
    return [directory]


def _is_worktree(folder: Path) -> bool:
    """Return whether the folder has a `.git` of this user; one of another user, e.g. in /tmp, is ignored."""
    try:
        return os.lstat(folder / ".git").st_uid == os.geteuid()
    except (OSError, ValueError):
        return False


def _global_locations(environment: Environment, family: Family) -> Iterator[ConfigLocation]:
    folder = config_folder(environment, family)
    for path in (folder / f"{family}.json", folder / f"{family}.jsonc"):
        yield ConfigLocation(family=family, scope="global", path=path, found=os.path.exists(path))


def _project_locations(environment: Environment, family: Family, directory: Path) -> Iterator[ConfigLocation]:
    for folder in worktree_folders(environment.folder(str(directory))):
        for inner in (folder, folder / f".{family}"):
            for path in (inner / f"{family}.json", inner / f"{family}.jsonc"):
                yield ConfigLocation(family=family, scope="project", path=path, found=os.path.exists(path))


def _variable_locations(environment: Environment, family: Family) -> Iterator[ConfigLocation]:
    file, content = f"{family.upper()}_CONFIG", f"{family.upper()}_CONFIG_CONTENT"
    if text := environment.get(file):
        path = environment.folder(text)
        yield ConfigLocation(
            family=family, scope="variable", path=path, variable=file, found=os.path.exists(path)
        )
    if environment.get(content):
        yield ConfigLocation(family=family, scope="variable", variable=content, found=True)


def _xdg_folder(environment: Environment, name: str, default: Path) -> Path:
    """Return the XDG folder; a relative path is ignored, as the standard demands."""
    path = Path(environment.get(name))
    return path if path.is_absolute() else default
