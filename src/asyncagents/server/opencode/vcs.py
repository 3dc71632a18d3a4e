"""`/vcs`: branches, status and diffs of a directory's git repository."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from asyncagents.config.trust import project_root
from asyncagents.domain.agent.permission import evaluate
from asyncagents.domain.conversation.session import FileDiff, Rule
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput, ToolError
from asyncagents.server.blocking import program_path
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.workplace import default_agent_rules, environment
from asyncagents.server.params import directory, query_choice, query_number
from asyncagents.server.route import Param, Routes, ServerContext
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import InsidePath
from asyncagents.tools.file.text import is_binary
from asyncagents.tools.git.changes import (
    ALL_CONTEXT,
    MOST_BYTES,
    Git,
    GitChange,
    Status,
    new_file_patch,
    open_git,
    split_patch,
)
from asyncagents.tools.git.head import Repository, branch_of, default_branch_of, find_repository

routes = Routes()

DIFF_TYPE = "text/x-diff; charset=utf-8"
NO_GIT = "git is not installed where the server runs"
_CONTEXT = Param("context", "Context lines around each change; default: the whole file", "integer", least=1)


class Branches(Shape, frozen=True, kw_only=True):
    branch: str | None = None
    default_branch: str | None = field(default=None, name="default_branch")


class FileStatus(Shape, frozen=True, kw_only=True):
    file: str
    additions: int
    deletions: int
    status: Status


class ChangedFile(Shape, frozen=True, kw_only=True):
    path: str
    added: int
    removed: int
    status: Status


@routes.get("/vcs", access="token", directory=True, response=Branches)
async def get(server: ServerContext, request: Request) -> Response:
    """Get the current and the default branch."""
    return json_response(await server.blocking.run(partial(_branches, Path(directory(server, request)))))


def _branches(where: Path) -> Branches:
    repository = _repository(where)
    if repository is None:
        return Branches()
    return Branches(branch=branch_of(repository), default_branch=default_branch_of(repository))


@routes.get("/vcs/status", access="token", directory=True, response=tuple[FileStatus, ...])
async def status(server: ServerContext, request: Request) -> Response:
    """List files that differ from the last commit."""
    diffs = await server.blocking.run(partial(_diffs, DiffRequest(where=Path(directory(server, request)))))
    return json_response(
        [
            FileStatus(
                file=each.file or "",
                additions=each.additions,
                deletions=each.deletions,
                status=each.status or "modified",
            )
            for each in diffs
        ]
    )


@routes.get("/file/status", access="token", directory=True, response=tuple[ChangedFile, ...])
async def files(server: ServerContext, request: Request) -> Response:
    """List changed files (OpenCode alias).

    The files of `/vcs/status`, in an older shape."""
    diffs = await server.blocking.run(partial(_diffs, DiffRequest(where=Path(directory(server, request)))))
    return json_response(
        [
            ChangedFile(
                path=each.file or "",
                added=each.additions,
                removed=each.deletions,
                status=each.status or "modified",
            )
            for each in diffs
        ]
    )


@routes.get(
    "/vcs/diff",
    access="token",
    directory=True,
    query=(
        Param("mode", "`git`: the last commit; `branch`: the branch point", choices=("git", "branch")),
        _CONTEXT,
    ),
    response=tuple[FileDiff, ...],
)
async def diff(server: ServerContext, request: Request) -> Response:
    """Diff since the last commit or the branch point."""
    modes: tuple[Literal["git", "branch"], ...] = ("git", "branch")
    mode = query_choice(request, "mode", modes)
    if mode is None:
        raise InvalidInput(
            "mode is required: git (compare with the last commit) or branch (with the branch point)"
        )
    context = query_number(request, "context", default=ALL_CONTEXT, most=100_000)
    diff_request = DiffRequest(
        where=Path(directory(server, request)),
        base=mode,
        context=context,
        rules=await default_agent_rules(server, request),
    )
    return json_response(await server.blocking.run(partial(_diffs, diff_request)))


@routes.get("/vcs/diff/raw", access="token", directory=True, response=str, content_type=DIFF_TYPE)
async def raw(server: ServerContext, request: Request) -> Response:
    """Get the patch since the last commit as text.

    Text that `git apply` accepts."""
    rules = await default_agent_rules(server, request)
    diff_request = DiffRequest(where=Path(directory(server, request)), context=3, rules=rules)
    diffs = await server.blocking.run(partial(_diffs, diff_request))
    return Response(
        200, "".join(each.patch or "" for each in diffs).encode("utf-8", "replace"), content_type=DIFF_TYPE
    )


def _repository(where: Path) -> Repository | None:
    return find_repository(project_root(environment(), where))


def _relative_path(where: Path, repository: Repository) -> str:
    return os.path.relpath(os.path.realpath(where), repository.root)


def _git_path(root: Path) -> str:
    found = program_path("git", root)
    if found is None:
        raise ToolError(NO_GIT)
    return found


class DiffRequest(Struct, frozen=True, kw_only=True):
    """What to compare."""

    where: Path
    base: Literal["git", "branch"] = "git"
    context: int | None = None
    """Lines around each change; None: no patches."""
    rules: tuple[Rule, ...] = ()
    """Files that these rules deny to read have no patch."""

    def shows_patch(self, file: str) -> bool:
        return self.context is not None and evaluate(self.rules, "read", file) != "deny"


def _diffs(diff_request: DiffRequest) -> list[FileDiff]:
    """Diff the directory against its base, sorted by file name."""
    repository = _repository(diff_request.where)
    if repository is None:
        return []
    with open_git(
        _git_path(repository.root), repository, _relative_path(diff_request.where, repository)
    ) as git:
        base = git.base if diff_request.base == "git" else git.branch_point()
        if base is None:
            return []
        changes = git.changes(base)
        patches = (
            {}
            if diff_request.context is None
            else split_patch(git.patch(base, diff_request.context), changes)
        )
        diffs = [
            _file_diff(change, patches if diff_request.shows_patch(change.file) else {}) for change in changes
        ]
        found = [*diffs, *_new_files(git, repository, diff_request)]
    return sorted(found, key=lambda each: each.file or "")


def _file_diff(change: GitChange, patches: Mapping[str, str]) -> FileDiff:
    return FileDiff(
        file=change.file,
        additions=change.additions,
        deletions=change.deletions,
        status=change.status,
        patch=patches.get(change.file),
    )


def _new_files(git: Git, repository: Repository, diff_request: DiffRequest) -> list[FileDiff]:
    """Diff untracked files, up to the same total size as git's own patch."""
    files, room = Files(repository.root), MOST_BYTES
    found = []
    for name in git.untracked_files():
        text = _new_text(files, name, room)
        room -= len(text or "")
        patch = new_file_patch(name, text) if diff_request.shows_patch(name) else None
        lines = text.count("\n") + (not text.endswith("\n")) if text else 0
        found.append(FileDiff(file=name, additions=lines, deletions=0, status="added", patch=patch))
    return found


def _new_text(files: Files, name: str, room: int) -> str | None:
    """Read an untracked file; None if it is binary, unreadable or too large: then only its name is listed."""
    try:
        data = files.read(InsidePath(files.root, tuple(name.split("/")))).data
    except ToolError:
        return None
    return None if len(data) > room or is_binary(data) else data.decode("utf-8", "replace")
