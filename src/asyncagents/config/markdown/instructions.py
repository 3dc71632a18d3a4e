"""Collect instruction files for all agents: `AGENTS.md` or `CLAUDE.md`, and configured ones."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from asyncagents.config.env import Environment
from asyncagents.config.paths import config_folder, worktree_folders
from asyncagents.config.text_file import read_text
from asyncagents.config.trust import project_root
from asyncagents.errors import ConfigError

NAMES = ("AGENTS.md", "CLAUDE.md")
MOST_FILES = 100
"""Per pattern."""
MAX_CHARACTERS = 64 * 1024
"""Per file."""
MAX_ALL = 256 * 1024
_CUT = "\n[The rest of this file is left out: it is too long.]"


class Instruction(Struct, frozen=True):
    path: Path
    text: str


class Instructions(Struct, frozen=True):
    files: tuple[Instruction, ...] = ()
    """The user's first, then the project's from its root to the directory, then the configured ones."""
    warnings: tuple[str, ...] = ()


def find_instructions(
    environment: Environment, directory: Path, patterns: Iterable[str] = ()
) -> Instructions:
    """Collect all files, each once. Links out of the project are not followed."""
    collection = _Collection()
    collection.add_first(_user_files(environment))
    root = project_root(environment, directory)
    folders = worktree_folders(environment.folder(str(directory)))
    for folder in folders:
        collection.add_first([folder / name for name in NAMES], root)
    for pattern in patterns:
        found = collection.find_matches(pattern, folders)
        for path in found:
            collection.add(path, root)
    return Instructions(tuple(collection.files), tuple(collection.warnings))


class _Collection:
    def __init__(self) -> None:
        self.files: list[Instruction] = []
        self.warnings: list[str] = []
        self._seen: set[str] = set()
        self._room = MAX_ALL

    def add_first(self, paths: list[Path], root: Path | None = None) -> None:
        """Add the first path that exists."""
        for path in paths:
            if os.path.isfile(path):
                self.add(path, root)
                return

    def add(self, path: Path, root: Path | None) -> None:
        real = os.path.realpath(path)
        if real in self._seen:
            return
        self._seen.add(real)
        if root is not None and not Path(real).is_relative_to(root):
            self.warnings.append(f"{path} leads out of the project and is not read: copy it into the project")
            return
        try:
            text = (read_text(Path(real)) or "").strip()
        except ConfigError as error:
            self.warnings.append(str(error))
            return
        if text:
            self._keep(path, text)

    def _keep(self, path: Path, text: str) -> None:
        most = min(MAX_CHARACTERS, self._room)
        if len(text) > most:
            self.warnings.append(
                f"{path} is cut: a file may have {MAX_CHARACTERS:,} characters, all together {MAX_ALL:,}"
            )
            text = text[:most] + _CUT if most else ""
        if text:
            self._room = max(0, self._room - len(text))
            self.files.append(Instruction(path, text))

    def find_matches(self, pattern: str, folders: list[Path]) -> list[Path]:
        """List the files that a pattern matches, from the root inwards, sorted by name."""
        if reason := _pattern_problem(pattern):
            self.warnings.append(f"instructions: {pattern!r} {reason}")
            return []
        found = [path for folder in folders for path in _glob(folder, pattern)]
        if not found:
            self.warnings.append(f"instructions: {pattern!r} matches no file: correct or remove it")
        if len(found) > MOST_FILES:
            self.warnings.append(f"instructions: {pattern!r} matches more than {MOST_FILES} files: narrow it")
        return found[:MOST_FILES]


def _user_files(environment: Environment) -> list[Path]:
    return [
        config_folder(environment, "asyncagents") / "AGENTS.md",
        config_folder(environment, "opencode") / "AGENTS.md",
        environment.home / ".claude" / "CLAUDE.md",
    ]


def _pattern_problem(pattern: str) -> str | None:
    if "://" in pattern:
        return "is an address, and only files are read: save it in the project"
    path = Path(pattern)
    if not path.parts or "\0" in pattern or any("**" in part and part != "**" for part in path.parts):
        return "is not a valid pattern: write a path such as docs/*.md"
    if path.is_absolute() or path.parts[0] == "~" or ".." in path.parts:
        return "lies outside the project: name a file in it"
    return None


def _glob(folder: Path, pattern: str) -> Iterator[Path]:
    try:
        matches = islice(folder.glob(pattern), MOST_FILES + 1)
        return iter(sorted(path for path in matches if os.path.isfile(path)))
    except OSError:
        return iter(())
