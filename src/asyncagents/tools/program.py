"""Finds programs that we run ourselves, on PATH but never in the project: agents write there."""

import os
import shutil
from pathlib import Path

from asyncagents.domain.sandbox import is_beneath


def find_program(name: str, path: str | None, *, outside: Path | None) -> str | None:
    """Find it in an absolute folder of PATH that is not in the project, as a virtual environment may be."""
    folders = (each for each in (path or os.defpath).split(os.pathsep) if os.path.isabs(each))
    for folder in folders:
        found = shutil.which(name, path=folder)
        if found is not None and (outside is None or not _is_inside(found, outside)):
            return found
    return None


def _is_inside(path: str, project: Path) -> bool:
    """Decide it for the folder, and for the file that a link leads to."""
    root = os.path.realpath(project)
    if root == os.sep:
        return False
    return any(
        is_beneath(each, root) for each in (os.path.realpath(path), os.path.realpath(Path(path).parent))
    )
