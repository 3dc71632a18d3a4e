"""Directories and repositories that somebody made to hurt: each is a sentence, and none of them leads out."""

import struct
from hashlib import sha1
from pathlib import Path

import pytest

from tests.support.git import run_git, write_files
from tests.support.home import root
from tests.support.http.server import serve_project

__all__ = ["root"]
ROUTES = (
    *("/session", "/agent", "/config", "/path", "/project/current", "/vcs", "/vcs/status", "/file/status"),
    *("/vcs/diff?mode=git", "/vcs/diff/raw", "/file?path=.", "/file/content?path=a", "/find/file?query=a"),
    *("/find?pattern=a", "/api/fs/find?query=a", "/experimental/tool/ids", "/mcp"),
)


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("name", ["loop", "a" * 300, "a/" * 1_000, "file/below", "/proc/1/root/etc", "dead"])
async def test_an_unreadable_directory_is_never_a_server_error(tmp_path: Path, root: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "file").touch()
    async with serve_project(tmp_path, root) as at:
        told = {
            path: await at.get(f"{path}{'&' if '?' in path else '?'}directory={tmp_path / name}")
            for path in ROUTES
        }
    assert {path: each.status for path, each in told.items() if each.status not in {200, 400, 404}} == {}


def entry(name: bytes, blob: bytes) -> bytes:
    """Of git's index, in its second version."""
    mode = struct.pack(">10I", *(0,) * 6, 0o100644, *(0,) * 3)
    whole = mode + blob + struct.pack(">H", len(name)) + name
    return whole + b"\0" * (8 - len(whole) % 8)


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("name", ["../secret.txt", "{}/secret.txt", "src/../../secret.txt", ".git/config"])
async def test_a_git_index_that_names_forbidden_files_is_refused(
    tmp_path: Path, root: Path, name: str
) -> None:
    write_files(tmp_path, {"secret.txt": "precious\n"})
    run_git(root, "config", "secret.of", "precious")
    blob = bytes.fromhex(run_git(root, "hash-object", "-w", "/dev/null").strip())
    index = b"DIRC" + struct.pack(">2I", 2, 1) + entry(name.format(tmp_path).encode(), blob)
    (root / ".git/index").write_bytes(index + sha1(index, usedforsecurity=False).digest())
    async with serve_project(tmp_path, root) as at:
        told = [await at.get(f"/vcs/{what}") for what in ("status", "diff?mode=git", "diff/raw")]
    assert not any("precious" in each.text for each in told)
    assert [each.status for each in told] == [400] * 3


@pytest.mark.spec("X-01")
async def test_a_directory_that_is_nested_too_deep_is_refused(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        told = [(await at.get(f"/path?directory=/{'a/' * deep}")).status for deep in (100, 300)]
    assert told == [200, 400]
