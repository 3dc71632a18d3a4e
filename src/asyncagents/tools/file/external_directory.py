"""Asks for paths outside the project (`external_directory`), and what an answer "always" covers.

Reading and changing are separate: an approved folder or file may be read, not changed.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from asyncagents.engine.tool import Ask

PERMISSION = "external_directory"
MOST_PATHS = 20
MOST_PATH = 1_000
# Folders below these hold too much to be approved as a whole.
_SYSTEM_FOLDERS = frozenset({"boot", "dev", "etc", "proc", "root", "run", "sys"})
_HOMES = frozenset({"home", "Users"})
_WILDCARDS = frozenset("*?\\")


def folder_pattern(folder: str) -> str:
    return f"{folder.rstrip('/')}/*"


def may_be_approved(folder: str, home: str = "") -> bool:
    """Return whether a folder can be approved with all below it: no root, no home, nothing hidden."""
    parts = folder.split("/")[1:]
    home = home or str(Path.home())
    if len(parts) < 2 or parts[0] in _SYSTEM_FOLDERS or (len(parts) == 2 and parts[0] in _HOMES):
        return False
    if f"{home}/".startswith(f"{folder}/") or any(part.startswith(".") for part in parts):
        return False
    return is_displayable(folder) and not _WILDCARDS & set(folder)


def is_displayable(path: str) -> bool:
    """Return whether a path is displayed to a person unchanged: printable and not too long."""
    return path.isprintable() and len(path) <= MOST_PATH


def file_ask(*paths: str, change: bool = False) -> Ask:
    """Ask to read or change certain paths; "always" covers the same paths and action."""
    shown = all(map(is_displayable, paths))
    return Ask(
        PERMISSION,
        _patterns(map(os.path.dirname, paths)),
        always=tuple(f"change {path}" if change else path for path in paths) if shown else (),
        metadata={"filepath": paths[0], "parentDir": os.path.dirname(paths[0])},
        exact=shown,
        narrow=change,
    )


def folder_ask(folder: str) -> Ask:
    """Ask to read a folder and all below it."""
    pattern = folder_pattern(folder)
    return Ask(
        PERMISSION,
        (pattern,),
        always=(pattern,) if may_be_approved(folder) else (),
        metadata={"filepath": folder, "parentDir": folder},
    )


def line_asks(paths: Sequence[str], ask: Ask, *, home: str, reads: bool) -> tuple[Ask, ...]:
    """Ask for paths that a shell line names. `ask`: an ask for that line; `reads`: it only reads."""
    if not reads:
        return (_line_ask(ask, paths),)
    folders = [path for path in paths if os.path.isdir(path) and may_be_approved(path, home)]
    rest = [path for path in paths if not any(f"{path}/".startswith(f"{folder}/") for folder in folders)]
    asks = [_build_ask(folders, ask, always=_patterns(folders), exact=False)] if folders else []
    if any(os.path.isdir(path) or not is_displayable(path) for path in rest) or len(rest) > MOST_PATHS:
        return (*asks, _line_ask(ask, rest))
    return (*asks, _build_ask(rest, ask, always=tuple(rest), exact=True)) if rest else tuple(asks)


def _line_ask(ask: Ask, paths: Iterable[str]) -> Ask:
    """Ask for `paths` such that "always" approves only the line itself."""
    return Ask(
        PERMISSION,
        _patterns(map(_folder, paths)),
        always=ask.always,
        metadata=ask.metadata,
        exact=ask.exact,
        narrow=True,
    )


def _build_ask(paths: Sequence[str], ask: Ask, **lasting: Any) -> Ask:
    return Ask(PERMISSION, _patterns(map(_folder, paths)), metadata=ask.metadata, **lasting)


def _folder(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path)


def _patterns(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(folder_pattern, folders)))
