"""Read branch and commit of a worktree from git's own files, without running git."""

import os
import re
import stat
from pathlib import Path

from msgspec import Struct

MOST_BYTES = 4 * 1024 * 1024
_REF = re.compile(r"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]{1,255})\s*")
_REMOTE = re.compile(r"ref: refs/remotes/origin/([^\x00-\x20\x7f~^:?*\[\\]{1,255})\s*")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_USUAL_BRANCHES = ("main", "master")


class Repository(Struct, frozen=True):
    """`folder`: the git directory of this worktree; `common`: that of all worktrees, often the same."""

    root: Path
    folder: Path
    common: Path


def find_repository(root: Path) -> Repository | None:
    """Find the repository of the worktree at `root`, whose `.git` is a folder or a file that names one."""
    dot = root / ".git"
    if os.path.isdir(dot):
        folder = dot
    else:
        text = _read_text(dot).strip()
        if not text.startswith("gitdir:"):
            return None
        folder = root / text.removeprefix("gitdir:").strip()
    shared = _read_text(folder / "commondir").strip()
    common = folder / shared if shared else folder
    return Repository(root, folder, common) if os.path.isfile(folder / "HEAD") else None


def branch_of(repository: Repository) -> str | None:
    """Return the current branch; None if a commit is checked out."""
    found = _REF.fullmatch(_read_text(repository.folder / "HEAD"))
    return found[1] if found else None


def default_branch_of(repository: Repository) -> str | None:
    """Return the remote's default branch, else `main` or `master` if it exists, else None."""
    found = _REMOTE.fullmatch(_read_text(repository.common / "refs" / "remotes" / "origin" / "HEAD"))
    if found:
        return found[1]
    return next((name for name in _USUAL_BRANCHES if commit_of(repository, f"refs/heads/{name}")), None)


def head_commit(repository: Repository) -> str | None:
    """Return the checked-out commit; None before the first commit."""
    text = _read_text(repository.folder / "HEAD").strip()
    if _COMMIT.fullmatch(text):
        return text
    branch = branch_of(repository)
    return commit_of(repository, f"refs/heads/{branch}") if branch else None


def commit_of(repository: Repository, ref: str) -> str | None:
    if any(part in {"", ".", ".."} for part in ref.split("/")):
        return None
    text = _read_text(repository.common / ref).strip()
    if _COMMIT.fullmatch(text):
        return text
    for line in _read_text(repository.common / "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _COMMIT.fullmatch(commit):
            return commit
    return None


def _read_text(path: Path) -> str:
    return read_small_file(path).decode("utf-8", "replace")


def read_small_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return at most `most` bytes of a regular file; nothing if it is not one or cannot be read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(opened, "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(opened).st_mode) else b""
    except (OSError, ValueError):
        return b""
