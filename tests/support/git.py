"""Git repositories of tests."""

import subprocess
from collections.abc import Mapping
from pathlib import Path


def run_git(where: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    command = ["git", *identity, *words]
    return subprocess.run(command, cwd=where, check=True, capture_output=True, text=True).stdout


def create_repository(root: Path, files: Mapping[str, str]) -> None:
    """Create a repository with these files, none of them committed."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    write_files(root, files)


def commit_repository(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Create a repository with one commit of these files."""
    run_git(root.parent, "init", "-q", "-b", "main", str(root))
    write_files(root, files)
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "first")


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode() if isinstance(content, str) else content)
