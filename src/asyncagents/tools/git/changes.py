"""Compare a worktree with a commit by git, without the project's own git configuration.

A repository's `config` may name programs (a filter, a textconv, a file monitor), and git runs them. So git
gets a git directory of ours with the project's objects and index, and runs no program of the project.
"""

import os
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.git.head import (
    Repository,
    branch_of,
    commit_of,
    default_branch_of,
    head_commit,
    read_small_file,
)

TIMEOUT_SECONDS = 30.0
MOST_BYTES = 10_000_000
MOST_FILES = 10_000
ALL_CONTEXT = 2_147_483_647
"""Lines of context: the whole file."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The id of the empty tree, which every git knows."""
_PATCH_START = re.compile(r"^diff --git ", re.MULTILINE)
_DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all")

Status: TypeAlias = Literal["added", "deleted", "modified"]
_STATUSES: Mapping[str, Status] = {"A": "added", "D": "deleted"}


class GitChange(Struct, frozen=True, kw_only=True):
    file: str
    """From the root of the worktree."""
    status: Status
    additions: int
    deletions: int
    chunks: int = 1
    """How many pieces of a patch belong to the file."""


class Git:
    """Git queries about one worktree; all of them see the same HEAD commit."""

    def __init__(self, program: str, repository: Repository, within: str, folder: Path) -> None:
        self._program = program
        self._repository = repository
        self._within = within
        self._folder = folder

    @cached_property
    def head(self) -> str | None:
        return head_commit(self._repository)

    @property
    def base(self) -> str:
        """The commit to compare the worktree with; the empty tree before the first commit."""
        return self.head or _EMPTY_TREE

    def branch_point(self) -> str | None:
        """Return the merge base with the default branch; None on the default branch, or if it is unknown."""
        name = default_branch_of(self._repository)
        if name in {None, branch_of(self._repository)} or self.head is None:
            return None
        for ref in (f"refs/remotes/origin/{name}", f"refs/heads/{name}"):
            commit = commit_of(self._repository, ref)
            if commit is not None:
                return self._run(("merge-base", commit, self.head), fine=(0, 1)).strip() or None
        return None

    def changes(self, base: str) -> list[GitChange]:
        """Return the changes of tracked files since `base`."""
        output = self._run(("diff", *_DIFF_OPTIONS, "-z", "--raw", "--numstat", base, "--", self._within))
        pieces = deque(output.split("\0"))
        kinds: dict[str, str] = {}
        found: list[GitChange] = []
        while pieces:
            piece = pieces.popleft()
            if piece.startswith(":") and pieces:
                kinds[pieces.popleft()] = piece[-1]
            elif piece.count("\t") >= 2:
                added, removed, file = piece.split("\t", 2)
                found.append(_build_change(file, kinds.get(file, "M"), added, removed))
        if any(_leaves_worktree(each.file) for each in found):
            raise ToolError("The index of this repository names files that lie outside of it; remove it.")
        return found[:MOST_FILES]

    def untracked_files(self) -> list[str]:
        """Return the files that git neither tracks nor ignores."""
        output = self._run(("ls-files", "--others", "--exclude-standard", "-z", "--", self._within))
        return [file for file in output.split("\0") if file and not file.endswith("/")][:MOST_FILES]

    def patch(self, base: str, context: int = ALL_CONTEXT) -> str:
        return self._run(
            ("diff", *_DIFF_OPTIONS, f"--unified={context}", "--patch", base, "--", self._within)
        )

    def _run(self, words: Sequence[str], fine: tuple[int, ...] = (0,)) -> str:
        """Run git; raise `ToolError` if its exit code is not in `fine`."""
        program = (self._program, "-c", "core.quotePath=false", *words)
        code, output = _run_git(program, self._variables, self._repository.root)
        if code not in fine:
            raise ToolError(f"git {words[0]} failed here with exit code {code}; try it in a terminal.")
        return output.decode("utf-8", "replace")

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        repository = self._repository
        _prepare_git_folder(self._folder, repository, self.head)
        return {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "HOME": str(self._folder),
            "GIT_DIR": str(self._folder),
            "GIT_WORK_TREE": str(repository.root),
            "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
            "GIT_INDEX_FILE": str(repository.folder / "index"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
        }


@contextmanager
def open_git(program: str, repository: Repository, within: str = ".") -> Iterator[Git]:
    """Open git queries. `within`: a folder relative to the worktree's root; other files are left out."""
    with tempfile.TemporaryDirectory(prefix="asyncagents-git-") as folder:
        yield Git(program, repository, within, Path(folder))


def init_repository(program: str, root: Path, home: Path) -> None:
    """Run `git init` with the user's configuration; there is no project configuration yet."""
    variables = {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "HOME": str(home),
        "GIT_CEILING_DIRECTORIES": str(root.parent),
        "GIT_TERMINAL_PROMPT": "0",
    }
    code, _ = _run_git((program, "init", "--quiet", "--", str(root)), variables, root)
    if code:
        raise ToolError(f"git init failed here with exit code {code}; try it in a terminal.")


def split_patch(patch: str, changes: Sequence[GitChange]) -> dict[str, str]:
    """Map each file to its piece of the patch, in the order of the changes; empty if the counts differ."""
    starts = [found.start() for found in _PATCH_START.finditer(patch)]
    if len(starts) != sum(change.chunks for change in changes):
        return {}
    texts = iter([patch[start:end] for start, end in pairwise([*starts, len(patch)])])
    return {change.file: "".join(next(texts) for _ in range(change.chunks)) for change in changes}


def new_file_patch(name: str, text: str | None) -> str:
    """Build the patch of an untracked file; `text` None: the file is binary."""
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n"
    if text is None:
        return f"{head}Binary files /dev/null and b/{name} differ\n"
    if not text:
        return head
    lines = text.removesuffix("\n").split("\n")
    body = "".join(f"+{line}\n" for line in lines)
    end = "" if text.endswith("\n") else "\\ No newline at end of file\n"
    size = "" if len(lines) == 1 else f",{len(lines)}"
    return f"{head}--- /dev/null\n+++ b/{name}\n@@ -0,0 +1{size} @@\n{body}{end}"


def _leaves_worktree(file: str) -> bool:
    """Return whether a path leaves the worktree, as a forged index may make git do."""
    parts = file.split("/")
    return "" in parts or ".." in parts or ".git" in [part.lower() for part in parts]


def _build_change(file: str, kind: str, added: str, removed: str) -> GitChange:
    """Build a change; a binary file has zero counts, a change of type (file to link) has two pieces."""
    return GitChange(
        file=file,
        status=_STATUSES.get(kind, "modified"),
        additions=int(added) if added.isdecimal() else 0,
        deletions=int(removed) if removed.isdecimal() else 0,
        chunks=2 if kind == "T" else 1,
    )


def _prepare_git_folder(folder: Path, repository: Repository, head: str | None) -> None:
    """Write the files that make a folder a git directory."""
    (folder / "objects").mkdir()
    (folder / "refs").mkdir()
    (folder / "info").mkdir()
    (folder / "HEAD").write_text(f"{head}\n" if head else "ref: refs/heads/none\n")
    long = "[extensions]\n\tobjectFormat = sha256\n" if head and len(head) == 64 else ""
    (folder / "config").write_text(f"[core]\n\trepositoryformatversion = {1 if long else 0}\n{long}")
    (folder / "info" / "exclude").write_bytes(read_small_file(repository.common / "info" / "exclude"))


def _run_git(words: Sequence[str], variables: Mapping[str, str], root: Path) -> tuple[int, bytes]:
    """Run git; return exit code and bounded stdout. Stderr is dropped: it may name files outside `within`."""
    try:
        running = subprocess.Popen(
            words,
            cwd=root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:
        raise ToolError("git cannot be started here.") from error
    end = Timer(TIMEOUT_SECONDS, running.kill)
    end.start()
    try:
        with running:
            assert running.stdout is not None, "stdout is a pipe"
            output = running.stdout.read(MOST_BYTES + 1)
            if len(output) > MOST_BYTES:
                running.kill()
    finally:
        end.cancel()
    if len(output) > MOST_BYTES:
        raise ToolError(
            f"There are more than {MOST_BYTES // 1_000_000} MB of changes; look at them with git."
        )
    if running.returncode < 0:
        raise ToolError(f"git took longer than {TIMEOUT_SECONDS:g} s; look at the changes with git itself.")
    return running.returncode, output
