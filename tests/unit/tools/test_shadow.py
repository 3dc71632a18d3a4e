"""Our own repository, when git fails in it."""

import os
import subprocess
from pathlib import Path

import pytest

from asyncagents.errors import Unavailable
from asyncagents.tools.git.shadow_repository import ShadowRepository, find_git

# It begins a pack as git does, and is stopped.
FAILING = """#!/bin/sh
case "$*" in
*update-index*) mkdir -p "$GIT_DIR/objects/pack"; echo x > "$GIT_DIR/objects/pack/tmp_pack_$$"; exit 9;;
*) exec {git} "$@";;
esac
"""


def test_a_failed_snapshot_leaves_no_partial_pack(tmp_path: Path) -> None:
    root, programs = tmp_path / "project", tmp_path / "bin"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "a.txt").write_text("a\n")
    programs.mkdir()
    (programs / "git").write_text(FAILING.format(git=find_git(os.environ)))
    (programs / "git").chmod(0o755)
    kept = tmp_path / "snapshot"
    shadow = ShadowRepository(kept, root, {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)})
    with pytest.raises(Unavailable, match="update-index failed"), shadow.lock():
        shadow.write_tree()
    assert list((kept / "objects" / "pack").iterdir()) == []
