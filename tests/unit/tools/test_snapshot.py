"""Snapshots of a project's files: byte for byte, beneath the project, and nothing of the project's runs."""

import asyncio
import os
import stat
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from asyncagents.config.clock import SystemClock
from asyncagents.engine.workplace.snapshots import FileToRestore, NoSnapshots
from asyncagents.errors import Unavailable
from asyncagents.tools.git import shadow_repository
from asyncagents.tools.git.snapshots import GitSnapshots, open_snapshots

pytestmark = pytest.mark.slow

HOSTILE_FILTER = "* filter=trap diff=trap merge=trap text eol=crlf ident working-tree-encoding=UTF-16\n"


def git(*words: str, at: Path) -> None:
    """As the user, or whoever made the project, runs it."""
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *words], cwd=at, check=False, capture_output=True)


class Yard:
    """A project, and its snapshots."""

    def __init__(self, root: Path, snapshots: GitSnapshots) -> None:
        self.root = root
        self.snapshots = snapshots
        self.take = snapshots.take

    def write(self, name: str, data: bytes = b"text\n", mode: int | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if mode is not None:
            path.chmod(mode)
        return path

    async def back(self, before: str, after: str) -> tuple[str, ...]:
        """Undo what changed from one to the other."""
        files = await self.snapshots.changed_files(before, after)
        return await self.snapshots.restore_files([FileToRestore(file, before) for file in files])

    def tree(self) -> dict[str, tuple[str, bytes]]:
        found: dict[str, tuple[str, bytes]] = {}
        for folder, _, names in os.walk(os.fsencode(self.root)):
            for name in names if b"/.git" not in folder else ():
                path = os.path.join(folder, name)
                about = os.lstat(path)
                content = (
                    os.readlink(path) if stat.S_ISLNK(about.st_mode) else Path(os.fsdecode(path)).read_bytes()
                )
                found[os.fsdecode(os.path.relpath(path, os.fsencode(self.root)))] = (
                    stat.filemode(about.st_mode), content
                )  # fmt: skip
        return found


def variables(**more: str) -> Mapping[str, str]:
    return {"PATH": os.defpath, "HOME": "/nonexistent", **more}


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    root = tmp_path / "project"
    git("init", "-q", ".", at=root)
    return opened(tmp_path, root)


def opened(tmp_path: Path, root: Path) -> Yard:
    snapshots = open_snapshots(tmp_path / "data" / "snapshot", root, variables(), SystemClock())
    assert isinstance(snapshots, GitSnapshots)
    return Yard(root, snapshots)


@pytest.mark.spec("X-01")
async def test_every_kind_of_file_comes_back_byte_for_byte(yard: Yard) -> None:
    yard.write("mixed.txt", b"a\r\nb\nc\r")
    yard.write("binary", bytes(range(256)))
    yard.write("runs.sh", mode=0o755)
    yard.write("with space/ünï\ncode \"'\\.txt", b"odd name")
    yard.write(":(top)magic", b"pathspec")
    yard.write("-dash", b"option")
    yard.write("file-then-folder", b"file")
    yard.write("folder/then-file", b"inside")
    (yard.root / "link").symlink_to("mixed.txt")
    (yard.root / "out").symlink_to("/etc/passwd")
    was, before = yard.tree(), await yard.take()
    for name in (
        "mixed.txt",
        "binary",
        "link",
        "with space/ünï\ncode \"'\\.txt",
        ":(top)magic",
        "file-then-folder",
    ):
        (yard.root / name).unlink()
    yard.write("-dash", b"other")
    (yard.root / "runs.sh").chmod(0o644)
    (yard.root / "folder" / "then-file").unlink()
    (yard.root / "folder").rmdir()
    yard.write("folder", b"a file now")
    yard.write("file-then-folder/deep/new", b"new")
    yard.write("link", b"no link any more")
    (yard.root / "out").unlink()
    done, after = yard.tree(), await yard.take()
    assert await yard.back(before, after) == ()
    assert yard.tree() == was
    assert await yard.take() == before
    assert await yard.back(after, before) == ()
    assert yard.tree() == done


@pytest.mark.spec("X-01")
async def test_a_renamed_file_is_shown_as_one_deleted_and_one_added(yard: Yard) -> None:
    yard.write("old", b"same\n" * 20)
    before = await yard.take()
    (yard.root / "old").rename(yard.root / "new")
    after = await yard.take()
    found = [(each.file, each.status) for each in await yard.snapshots.diffs(before, after)]
    assert found == [("new", "added"), ("old", "deleted")]


@pytest.mark.spec("X-01")
async def test_other_bits_of_a_mode_stay_as_they_are(yard: Yard) -> None:
    secret = yard.write("secret", b"one", mode=0o600)
    before = await yard.take()
    secret.write_bytes(b"two")
    await yard.back(before, await yard.take())
    assert secret.read_bytes() == b"one"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def added(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark wherever it is run."""
    program = tmp_path / "trap.sh"
    program.write_text(f'#!/bin/sh\ntouch "{tmp_path}/sprung"\ncat\n')
    program.chmod(0o755)
    return program


@pytest.mark.spec("X-01")
async def test_nothing_of_a_hostile_project_is_run(tmp_path: Path, yard: Yard) -> None:
    program = trap(tmp_path)
    evil = (
        f'[core]\n\tfsmonitor = "{program}"\n\thooksPath = {tmp_path}/hooks\n\tpager = "{program}"\n'
        f'\tsshCommand = "{program}"\n\tattributesFile = {tmp_path}/attributes\n'
        f'[filter "trap"]\n\tclean = "{program}"\n\tsmudge = "{program}"\n\tprocess = "{program}"\n'
        f'[diff "trap"]\n\ttextconv = "{program}"\n\tcommand = "{program}"\n'
        f'[submodule "nested"]\n\tupdate = "!{program}"\n\tignore = none\n'
    )
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        (tmp_path / "hooks" / hook).symlink_to(program)
    for repository in (yard.root, yard.root / "nested", yard.root / "sub" / "module"):
        repository.mkdir(parents=True, exist_ok=True)
        git("init", "-q", ".", at=repository)
        git(
            "-c",
            "user.name=x",
            "-c",
            "user.email=x",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
            at=repository,
        )
        added(repository / ".git" / "config", evil)
    yard.write(".gitattributes", HOSTILE_FILTER.encode())
    yard.write(".gitmodules", b'[submodule "nested"]\n\tpath = nested\n\turl = ../x\n\tignore = none\n')
    yard.write("a.txt", b"one\r\n$Id$\n")
    yard.write("becomes")
    before = await yard.take()
    yard.write("a.txt", b"two\n")
    yard.write("nested/file", b"of another repository")
    (yard.root / "becomes").unlink()
    git("clone", "-q", "nested", "becomes", at=yard.root)
    after = await yard.take()
    await yard.snapshots.diffs(before, after)
    await yard.snapshots.patch_text(before, after)
    await yard.back(before, after)
    await swept(tmp_path, yard)
    assert not (tmp_path / "sprung").exists()
    assert (yard.root / "a.txt").read_bytes() == b"one\r\n$Id$\n"
    assert (yard.root / "nested" / "file").exists()


async def test_the_trap_works_with_plain_git(tmp_path: Path, yard: Yard) -> None:
    program = trap(tmp_path)
    git("config", "core.fsmonitor", str(program), at=yard.root)
    git("status", at=yard.root)
    assert (tmp_path / "sprung").exists()


@pytest.mark.spec("X-01")
async def test_no_file_is_written_through_a_link_that_leads_out(tmp_path: Path, yard: Yard) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    yard.write("folder/a.txt", b"one")
    before = await yard.take()
    yard.write("folder/a.txt", b"two")
    after = await yard.take()
    (yard.root / "folder").rename(yard.root / "moved")
    (yard.root / "folder").symlink_to(outside)
    (outside / "a.txt").write_bytes(b"not ours")
    (left,) = await yard.back(before, after)
    assert left.startswith("folder/a.txt: it cannot be put back")
    assert (outside / "a.txt").read_bytes() == b"not ours"
    files = [
        FileToRestore(str(yard.root / "folder" / "b.txt"), before),
        FileToRestore(str(outside / "a.txt"), before),
    ]
    await yard.snapshots.restore_files(
        [*files, FileToRestore(str(yard.root / ".." / "outside" / "a.txt"), before)]
    )
    assert (outside / "a.txt").read_bytes() == b"not ours"


@pytest.mark.spec("X-01")
async def test_a_file_that_is_too_large_is_not_kept_and_not_lost(yard: Yard) -> None:
    grows = yard.write("grows", b"small")
    before = await yard.take()
    grows.write_bytes(b"x" * (shadow_repository.MOST_BYTES + 1))
    yard.write("new", b"x" * (shadow_repository.MOST_BYTES + 1))
    after = await yard.take()
    (left,) = await yard.back(before, after)
    assert left == "grows: it is too large to be kept, so it was left as it is"
    assert grows.stat().st_size == (yard.root / "new").stat().st_size == shadow_repository.MOST_BYTES + 1


@pytest.mark.spec("X-01")
async def test_ignored_files_are_not_part_of_a_snapshot(yard: Yard) -> None:
    yard.write(".gitignore", b"*.log\n")
    (yard.root / ".git" / "info" / "exclude").write_text("private/\n")
    yard.write("a.log", b"1")
    yard.write("private/key", b"1")
    before = await yard.take()
    yard.write("a.log", b"2")
    yard.write("private/key", b"2")
    assert await yard.take() == before


@pytest.mark.spec("X-01")
async def test_a_file_that_was_changed_since_the_undo_is_not_removed_by_a_redo(yard: Yard) -> None:
    yard.write("a", b"one")
    before = await yard.take()
    (yard.root / "a").unlink()
    after = await yard.take()
    await yard.back(before, after)
    yard.write("a", b"somebody's")
    put = FileToRestore(str(yard.root / "a"), after, was=before)
    assert await yard.snapshots.restore_files([put]) == (
        "a: somebody has changed it since, so it was left as it is",
    )
    assert (yard.root / "a").read_bytes() == b"somebody's"


@pytest.mark.spec("X-01")
async def test_names_that_are_no_text_are_passed_over(yard: Yard) -> None:
    before = await yard.take()
    yard.write(os.fsdecode(b"\xff\xfe.txt"))
    yard.write("a")
    after = await yard.take()
    assert await yard.snapshots.changed_files(before, after) == (str(yard.root / "a"),)
    assert [each.file for each in await yard.snapshots.diffs(before, after)] == ["a"]


@pytest.mark.spec("X-01")
async def test_pipes_and_unreadable_files_do_not_stop_a_snapshot(yard: Yard) -> None:
    os.mkfifo(yard.root / "pipe")
    yard.write("mine", mode=0o000)
    yard.write("a")
    first = await yard.take()
    yard.write("a", b"other\n")
    assert await yard.take() != first


@pytest.mark.spec("X-01")
async def test_git_that_hangs_is_ended_and_not_tried_again_for_a_while(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_repository, "TIMEOUT_SECONDS", 0.5)
    os.mkfifo(yard.root / ".gitignore")  # git waits for somebody to write there
    with pytest.raises(Unavailable, match="took more than"):
        await yard.take()
    (yard.root / ".gitignore").unlink()
    with pytest.raises(Unavailable, match="took more than"):
        await yard.take()


@pytest.mark.spec("X-01")
async def test_concurrent_requests_share_a_snapshot(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    take = yard.snapshots._shadow.write_tree

    def counted() -> str:
        nonlocal taken
        taken += 1
        return take()

    monkeypatch.setattr(yard.snapshots._shadow, "write_tree", counted)
    yard.write("a")
    found = await asyncio.gather(*(yard.take() for _ in range(40)))
    assert len(set(found)) == 1
    assert taken <= 2


@pytest.mark.spec("X-01")
async def test_a_lock_left_by_a_killed_process_does_not_stop_a_snapshot(tmp_path: Path, yard: Yard) -> None:
    yard.write("a")
    await yard.take()
    (folder,) = (tmp_path / "data" / "snapshot").iterdir()
    (folder / "index.lock").touch()
    yard.write("b")
    assert await yard.take()


@pytest.mark.spec("X-01")
async def test_no_snapshot_is_tried_for_a_while_after_a_failure(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_repository, "MOST_FILES", 1)
    yard.write("a")
    yard.write("b")
    with pytest.raises(Unavailable, match="too many for snapshots"):
        await yard.take()
    monkeypatch.undo()
    with pytest.raises(Unavailable, match="too many for snapshots"):
        await yard.take()


async def swept(tmp_path: Path, yard: Yard) -> None:
    """As if the last time were a day ago."""
    (folder,) = (tmp_path / "data" / "snapshot").iterdir()
    os.utime(folder / "asyncagents.swept", (0, 0))
    await asyncio.to_thread(yard.snapshots._shadow.delete_old)
    assert (folder / "asyncagents.swept").stat().st_mtime > 0


@pytest.mark.spec("X-01")
async def test_recent_snapshots_survive_the_deletion_of_old_ones(tmp_path: Path, yard: Yard) -> None:
    for number in range(150):
        yard.write(f"{number}.txt", b"one %d" % number)
    before = await yard.take()
    for number in range(150):
        (yard.root / f"{number}.txt").unlink()
    after = await yard.take()
    await swept(tmp_path, yard)
    await yard.back(before, after)
    assert (yard.root / "149.txt").read_bytes() == b"one 149"
    assert len(list(yard.root.iterdir())) == 151


@pytest.mark.spec("X-01")
async def test_our_own_data_in_the_project_is_not_part_of_it(tmp_path: Path) -> None:
    root = tmp_path / "project"
    git("init", "-q", ".", at=root)
    yard = opened(root / ".asyncagents", root)
    yard.write("a")
    first = await yard.take()
    assert await yard.take() == first
    assert list(yard.snapshots._shadow.files(first)) == ["a"]


@pytest.mark.spec("X-01")
def test_snapshots_without_git_or_a_repository_are_off_with_a_reason(tmp_path: Path) -> None:
    plain = open_snapshots(tmp_path / "s", tmp_path, variables(), SystemClock())
    (tmp_path / ".git").mkdir()
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "git").chmod(0o755)
    without = open_snapshots(tmp_path / "s", tmp_path, variables(PATH=f".:{tmp_path}/none"), SystemClock())
    assert isinstance(plain, NoSnapshots)
    assert isinstance(without, NoSnapshots)
    assert "not a git repository" in plain.why
    assert "git is not installed" in without.why


@pytest.mark.spec("X-01")
async def test_a_shared_snapshot_survives_the_cancel_of_one_request(yard: Yard) -> None:
    yard.write("a")
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(yard.take())
        await asyncio.sleep(0)
        given_up = group.create_task(yard.take())
        await asyncio.sleep(0)
        shared = [group.create_task(yard.take()) for _ in range(3)]
        await asyncio.sleep(0)
        given_up.cancel()
    assert {each.result() for each in shared} == {under_way.result()}


@pytest.mark.spec("X-01")
async def test_a_snapshot_that_cannot_be_written_is_unavailable(tmp_path: Path, yard: Yard) -> None:
    """A full disk, a folder of somebody else: whoever works goes on without them."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "snapshot").write_text("in its place")
    with pytest.raises(Unavailable, match="cannot be kept"):
        await yard.take()
    with pytest.raises(Unavailable, match="cannot be kept"):
        async with yard.snapshots.lock():
            pass


@pytest.mark.spec("X-01")
async def test_a_cancelled_restore_ends_only_when_the_files_are_restored(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a redo that comes next would write the same files at the same time."""
    yard.write("a", b"one")
    before = await yard.take()
    yard.write("a", b"two")
    begun, go_on, leaves = threading.Event(), threading.Event(), yard.snapshots._shadow.files

    def slow(tree: str) -> dict[str, shadow_repository.SnapshotFile]:
        begun.set()
        go_on.wait()
        return leaves(tree)

    monkeypatch.setattr(yard.snapshots._shadow, "files", slow)
    async with asyncio.TaskGroup() as group:
        undo = group.create_task(yard.snapshots.restore_files([FileToRestore(str(yard.root / "a"), before)]))
        await asyncio.to_thread(begun.wait)
        undo.cancel()
        await asyncio.wait((undo,), timeout=0)
        held = not undo.done()
        go_on.set()
    assert held
    assert undo.cancelled()
    assert (yard.root / "a").read_bytes() == b"one"
