"""Find programs that asyncagents runs itself: on PATH, but never in the project, where agents write."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from asyncagents.domain.agent.sandbox import is_beneath

LIBRARY_PATH = "LD_LIBRARY_PATH"
"""The variable with the folders where programs look for shared libraries before those of the system."""


def find_program(name: str, path: str | None, *, outside: Path | None) -> str | None:
    """Find a program in an absolute folder of PATH that is not inside the project, as a venv may be."""
    folders = (each for each in (path or os.defpath).split(os.pathsep) if os.path.isabs(each))
    for folder in folders:
        found = shutil.which(name, path=folder)
        if found is not None and (outside is None or not _is_inside(found, outside)):
            return found
    return None


def drop_project_libraries(environment: Mapping[str, str], *, outside: Path | None) -> dict[str, str]:
    """Drop folders of the project, where agents write, from the folders that libraries are loaded from."""
    folders = (environment.get(LIBRARY_PATH) or "").split(os.pathsep)
    remaining = [
        each for each in folders if os.path.isabs(each) and not (outside and _is_inside(each, outside))
    ]
    rest = {name: value for name, value in environment.items() if name != LIBRARY_PATH}
    return {**rest, LIBRARY_PATH: os.pathsep.join(remaining)} if remaining else rest


def _is_inside(path: str, project: Path) -> bool:
    """Return whether the real path of the file, or of its folder, is inside the project."""
    root = os.path.realpath(project)
    if root == os.sep:
        return False
    return any(
        is_beneath(each, root) for each in (os.path.realpath(path), os.path.realpath(Path(path).parent))
    )
