"""Programs that we run ourselves are never those of the project, which agents write."""

import os
import shutil
from pathlib import Path

import pytest

from asyncagents.errors import Unavailable
from asyncagents.tools.git.shadow_repository import ShadowRepository, find_git
from asyncagents.tools.process.program import find_program


def plant(folder: Path, name: str = "git") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.mark.parametrize(
    "before", ["project/.venv/bin", "project", "project/../project/bin", "link", ".", "", "bin", "of-links"]
)
def test_programs_of_the_project_on_path_are_skipped(tmp_path: Path, root: Path, before: str) -> None:
    planted = [plant(root / each) for each in (".venv/bin", "bin", ".")]
    (tmp_path / "link").symlink_to(planted[0].parent)
    (tmp_path / "of-links").mkdir()
    (tmp_path / "of-links" / "git").symlink_to(planted[0])
    wanted = plant(tmp_path / "system")
    first = before if before in {".", "", "bin"} else str(tmp_path / before)
    path = os.pathsep.join([first, str(wanted.parent)])
    assert find_program("git", path, outside=root) == str(wanted)


def test_a_program_that_only_the_project_has_is_not_found(root: Path) -> None:
    planted = plant(root / ".venv/bin")
    assert find_program("git", str(planted.parent), outside=root) is None
    with pytest.raises(Unavailable, match="git is not installed"):
        find_git({"PATH": str(planted.parent)}, outside=root)


def test_programs_are_found_if_the_project_is_the_root_directory() -> None:
    found = shutil.which("sh", path="/usr/bin:/bin")
    assert find_program("sh", "/usr/bin:/bin", outside=Path("/")) == found


def test_snapshots_do_not_run_the_projects_git(tmp_path: Path, root: Path) -> None:
    planted = plant(root / ".venv/bin")
    planted.write_text(f"#!/bin/sh\ntouch {root}/ran\nexit 1\n")
    path = f"{planted.parent}{os.pathsep}{os.environ['PATH']}"
    shadow = ShadowRepository(tmp_path / "shadow", root, {"PATH": path})
    (tmp_path / "shadow").mkdir()
    shadow.run("init", "--quiet")
    assert not (root / "ran").exists()
