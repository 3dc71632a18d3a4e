"""Git over HTTP: what has changed; and what a hostile repository names is not run."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support.git import run_git, write_files
from tests.support.home import root
from tests.support.http.server import serve_project

__all__ = ["root"]


def changed(told: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return [(each["file"], each["status"], each["additions"], each["deletions"]) for each in told]


@pytest.mark.spec("X-01")
async def test_changes_are_listed_with_their_patches(tmp_path: Path, root: Path) -> None:
    write_files(root, {"gone.txt": "g\n", "was a file": "f\n", 'odd "name"\n.txt': "1\n", "run.sh": "x\n"})
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "more")
    (root / "gone.txt").unlink()
    (root / "was a file").unlink()
    (root / "was a file").symlink_to("/etc/passwd")
    (root / "run.sh").chmod(0o755)
    write_files(
        root, {'odd "name"\n.txt': "1\n2\n", "new/ü.txt": "no end", "b.bin": b"\0\1", "x.log": "l", "e": ""}
    )
    (root / "new-link").symlink_to("/etc/passwd")
    run_git(root, "add", "b.bin")
    index = (root / ".git/index").stat().st_mtime_ns
    async with serve_project(tmp_path, root) as at:
        status = await at.json("/vcs/status")
        diff = await at.json("/vcs/diff?mode=git&context=1")
        whole = await at.json("/vcs/diff?mode=git")
        older = await at.json("/file/status")
        raw = await at.get("/vcs/diff/raw")
        below = await at.json(f"/vcs/status?directory={root}/new")
        refused = [
            (await at.get(f"/vcs/diff{query}")).status for query in ("", "?mode=all", "?mode=git&context=x")
        ]

    assert changed(status) == [
        ("b.bin", "added", 0, 0),
        ("e", "added", 0, 0),
        ("gone.txt", "deleted", 0, 1),
        ("new-link", "added", 0, 0),
        ("new/ü.txt", "added", 1, 0),
        ('odd "name"\n.txt', "modified", 1, 0),
        ("run.sh", "modified", 0, 0),
        ("was a file", "modified", 1, 1),
    ]
    assert changed(diff) == changed(whole) == changed(status)
    patches = {each["file"]: each["patch"] for each in diff}
    assert patches["gone.txt"].endswith("@@ -1 +0,0 @@\n-g\n")
    assert patches["was a file"].count("diff --git") == 2
    assert patches["new/ü.txt"].endswith("@@ -0,0 +1 @@\n+no end\n\\ No newline at end of file\n")
    assert "old mode 100644\nnew mode 100755" in patches["run.sh"]
    assert not any("root:" in patch for patch in patches.values())
    assert [each["path"] for each in older] == [each["file"] for each in status]
    assert raw.text.count("diff --git") == 9
    assert [each["file"] for each in below] == ["new/ü.txt"]
    assert refused == [400] * 3
    assert (root / ".git/index").stat().st_mtime_ns == index


@pytest.mark.spec("X-01")
async def test_a_branch_is_compared_with_its_merge_base(tmp_path: Path, root: Path) -> None:
    run_git(root, "switch", "-qc", "side")
    write_files(root, {"side.txt": "s\n"})
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "side")
    run_git(root, "switch", "-q", "main")
    write_files(root, {"main.txt": "m\n"})
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "main")
    run_git(root, "pack-refs", "--all")
    async with serve_project(tmp_path, root) as at:
        on_main = await at.json("/vcs/diff?mode=branch")
        run_git(root, "switch", "-q", "side")
        on_side = await at.json("/vcs/diff?mode=branch")
        run_git(root, "checkout", "-q", "--detach")
        detached = await at.json("/vcs")

    assert on_main == []
    assert changed(on_side) == [("side.txt", "added", 1, 0)]
    assert detached == {"default_branch": "main"}


async def test_new_repositories_plain_folders_and_worktrees_are_reported(tmp_path: Path, root: Path) -> None:
    new, plain, tree = tmp_path / "new", tmp_path / "plain", tmp_path / "tree"
    run_git(tmp_path, "init", "-qb", "trunk", str(new))
    write_files(new, {"a": "1\n", "b": "2\n"})
    run_git(new, "add", "a")
    write_files(plain, {"a": "1\n"})
    run_git(root, "worktree", "add", "-q", "-b", "tree", str(tree))
    write_files(tree, {"t": "t\n"})
    async with serve_project(tmp_path, root) as at:
        branches = [await at.json(f"/vcs?directory={each}") for each in (new, plain, tree)]
        status = [changed(await at.json(f"/vcs/status?directory={each}")) for each in (new, plain, tree)]
        raw = [(await at.get(f"/vcs/diff/raw?directory={each}")).text for each in (new, plain)]

    assert branches == [{"branch": "trunk"}, {}, {"branch": "tree", "default_branch": "main"}]
    assert status == [[("a", "added", 1, 0), ("b", "added", 1, 0)], [], [("t", "added", 1, 0)]]
    assert [each.count("diff --git") for each in raw] == [2, 0]


def trap(root: Path) -> Path:
    """Whatever git could be made to run leaves this mark."""
    mark = root.parent / "mark"
    program = root / ".git" / "trap.sh"
    program.write_text(f'#!/bin/sh\ntouch "{mark}"\ncat\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    settings = {
        "core.fsmonitor": program,
        "core.pager": program,
        "core.hooksPath": root / ".git" / "hooks",
        "core.sshCommand": program,
        "core.attributesFile": root / "attributes",
        "diff.external": program,
        "diff.trap.textconv": program,
        "diff.trap.command": program,
        "filter.trap.clean": program,
        "filter.trap.smudge": program,
        "filter.trap.process": program,
        "merge.trap.driver": program,
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program}",
        "protocol.ext.allow": "always",
        "alias.diff": f"!{program}",
        "submodule.recurse": "true",
        "diff.ignoreSubmodules": "none",
        "status.submoduleSummary": "true",
        "include.path": root / "included",
    }
    for name, value in settings.items():
        run_git(root, "config", name, str(value))
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (root / ".git/hooks" / hook).write_bytes(program.read_bytes())
        (root / ".git/hooks" / hook).chmod(0o755)
    (root / ".git/info/attributes").write_text("* filter=trap diff=trap merge=trap\n")
    write_files(root, {".gitattributes": "* filter=trap diff=trap\n", "attributes": "* filter=trap\n"})
    return mark


@pytest.mark.spec("X-01")
async def test_a_hostile_repository_runs_nothing(tmp_path: Path, root: Path) -> None:
    write_files(root, {"src/b.py": "one\n"})
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "b")
    mark = trap(root)
    later = (root / "src/a.py").stat().st_mtime + 100
    os.utime(root / "src/a.py", (later, later))  # now its content must be looked at
    write_files(root, {"src/b.py": "two\n", "new.txt": "n\n"})
    async with serve_project(tmp_path, root) as at:
        answers = [
            await at.get(path)
            for path in (
                *("/vcs", "/vcs/status", "/vcs/diff?mode=git", "/vcs/diff?mode=branch", "/vcs/diff/raw"),
                *("/file/status", "/project/current", "/file?path=.", "/find/file?query=a", "/path"),
            )
        ]
        begun = await at.request("POST", "/project/git/init")
        run = mark.exists()
        run_git(root, "-c", "core.fsmonitor=false", "status")

    assert [each.status for each in (*answers, begun)] == [200] * 11
    assert ("src/b.py", "modified", 1, 1) in changed(answers[1].json)
    assert not run
    assert mark.exists(), "git itself would have run it"


async def test_a_hostile_submodule_runs_nothing(tmp_path: Path, root: Path) -> None:
    inner = tmp_path / "inner"
    run_git(tmp_path, "init", "-q", str(inner))
    run_git(inner, "commit", "-q", "--allow-empty", "-m", "i")
    run_git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    run_git(root, "commit", "-qm", "sub")
    mark = tmp_path / "mark"
    run_git(root / "sub", "config", "core.fsmonitor", f"touch {mark}; false")
    write_files(root / "sub", {"dirty": "1"})
    async with serve_project(tmp_path, root) as at:
        told = [await at.get(path) for path in ("/vcs/status", "/vcs/diff?mode=git", "/file/status")]
        run = mark.exists()
    run_git(root, "status")

    assert [each.status for each in told] == [200] * 3
    assert not run
    assert mark.exists(), "git itself would have run it"


async def test_damaged_git_files_are_an_error_message_or_an_empty_answer(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        (root / ".git/index").write_bytes(b"DIRC" + b"\xff" * 100)
        index = await at.get("/vcs/status")
        (root / ".git/HEAD").write_bytes(b"ref: refs/heads/../../../../etc/passwd\n" + b"x" * 1_000_000)
        head = await at.get("/vcs")
        (root / ".git/HEAD").unlink()
        os.mkfifo(root / ".git/HEAD")
        pipe = [await at.get(path) for path in ("/vcs", "/vcs/status")]

    assert index.status == 400
    assert index.json["data"]["message"] == "git diff failed here with exit code 128; try it in a terminal."
    assert head.status == 200
    assert ("passwd" in head.text) is False
    assert [(each.status, each.text) for each in pipe] == [(200, "{}"), (200, "[]")]
