"""The disk is full: it is said, nothing acknowledged is lost, and when there is room again work goes on."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process.full_disk import fill_last_page

ROOT = Path(__file__).parents[2]
MOUNT = 'mount -t tmpfs -o size=8m tmpfs "$0"'


def with_a_small_disk(directory: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a mount namespace of its own, so that the disk is gone with the process."""
    shell = ["sh", "-c", f"{MOUNT} && {command}", str(directory), *arguments]
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", *shell],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.spec("X-11")
def test_a_full_disk_is_survived_without_a_restart(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or with_a_small_disk(tmp_path, "true").returncode != 0:
        pytest.skip("no disk of its own may be mounted here")
    ran = with_a_small_disk(tmp_path, 'exec "$1" -m tests.support.process.full_disk "$0"', sys.executable)
    assert ran.returncode == 0, ran.stderr
    assert "database or disk is full" in ran.stderr, "the log does not say why runs were dropped"


@pytest.mark.spec("X-11")
async def test_a_database_that_cannot_grow_is_survived_without_a_restart(tmp_path: Path) -> None:
    await fill_last_page(tmp_path)
