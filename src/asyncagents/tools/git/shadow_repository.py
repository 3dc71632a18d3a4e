"""A git repository of our own that stores file contents of a project, and runs no program that it names."""

import fcntl
import os
import re
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from asyncagents.errors import Unavailable
from asyncagents.tools.process.program import find_program

MOST_FILES = 50_000
MOST_BYTES = 2 * 1024 * 1024
"""Larger files are not stored."""
TIMEOUT_SECONDS = 60.0
RETENTION_DAYS = 30
"""How long a snapshot is kept."""
DAY_SECONDS = 86_400
_BLOBS_AT_ONCE = 64

# Overrides the project's own .gitattributes: files are stored byte for byte.
_ATTRIBUTES = "* -text -ident !eol !crlf !filter !diff !working-tree-encoding !merge\n"
_CONFIG = """\
[core]
	repositoryformatversion = 0
	bare = false
	autocrlf = false
	symlinks = true
	fileMode = true
	fsmonitor = false
	untrackedCache = false
	hooksPath = /dev/null
	attributesFile = /dev/null
	quotePath = false
	compression = 1
	fsync = loose-object,pack,pack-metadata
	fsyncMethod = batch
[index]
	version = 4
	threads = true
[gc]
	auto = 0
	cruftPacks = true
[maintenance]
	auto = false
[protocol]
	allow = never
[diff]
	ignoreSubmodules = all
[submodule]
	recurse = false
"""
_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PACK_FROM = 100
# Writing each file as a loose object is ten times slower: "big" files go into one pack.
_PACK_OPTIONS = "-c", "core.bigFileThreshold=1"


class SnapshotFile(Struct, frozen=True):
    """A file in a snapshot."""

    mode: str
    blob: str

    @property
    def is_link(self) -> bool:
        return self.mode == "120000"

    @property
    def is_executable(self) -> bool:
        return self.mode == "100755"


class ShadowRepository:
    """Blocks: call it in a thread. Changes need `lock`, which also excludes other processes."""

    def __init__(self, folder: Path, root: Path, variables: Mapping[str, str]) -> None:
        self.root = root
        self._folder = folder
        self._git = find_git(variables, outside=root)
        home = variables.get("HOME", "")
        self._variables = {
            **{name: variables[name] for name in ("PATH", "XDG_CONFIG_HOME", "TMPDIR") if name in variables},
            "HOME": home or str(folder),
            "LC_ALL": "C",
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(root),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }
        self._thread_locks = threading.local()
        """The file descriptors of locks that the current thread holds."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the exclusive lock. Git inherits it: after a crash it is free once git has ended, too."""
        lock = self._lock_file("asyncagents.lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._thread_locks.locks = (lock,)
            with self._map_os_errors():
                (self._folder / "index.lock").unlink(missing_ok=True)  # left by a git that was killed
                self._set_up()
            yield
        finally:
            self._thread_locks.locks = ()
            os.close(lock)

    @contextmanager
    def undo_lock(self) -> Iterator[Callable[[], bool]]:
        """Open the lock for putting files back; yield a function that tries to take it without waiting."""
        lock = self._lock_file("asyncagents.undo")

        def take() -> bool:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        try:
            yield take
        finally:
            os.close(lock)

    def _lock_file(self, name: str) -> int:
        with self._map_os_errors():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def _map_os_errors(self) -> Iterator[None]:
        """Raise `Unavailable` for an `OSError`, as on a full disk or without write permission."""
        try:
            yield
        except OSError as error:
            why = f"snapshots of files cannot be kept in {self._folder}: {error.strerror}"
            raise Unavailable(why) from error

    def _set_up(self) -> None:
        ready = self._folder / "asyncagents.ready"
        if ready.exists():
            return
        self.run("init", "--quiet", "--template=")
        (self._folder / "config").write_text(_CONFIG)
        (self._folder / "info").mkdir(exist_ok=True)
        (self._folder / "info" / "attributes").write_text(_ATTRIBUTES)
        (self._folder / "info" / "exclude").write_text(self._own_exclude())
        (self._folder / "asyncagents.swept").touch()
        ready.touch()

    def _own_exclude(self) -> str:
        """Return the exclude pattern for our data directory, if it is inside the project."""
        with suppress(ValueError):
            inside = self._folder.parent.parent.resolve().relative_to(self.root.resolve())
            return f"/{inside}/\n" if inside.parts else ""
        return ""

    def write_tree(self) -> str:
        """Store all files as they are now; return the id of their tree."""
        add, drop = self._find_changes()
        if drop:
            self.run("update-index", "-q", "-z", "--force-remove", "--stdin", given=_join_names(drop))
        if add:
            how = _PACK_OPTIONS if len(add) > _PACK_FROM else ()
            refreshed = "update-index", "-q", "--refresh", "--add", "--remove", "-z", "--stdin"
            with self._remove_unfinished_packs():
                self.run(*how, *refreshed, given=_join_names(add), fine=(0, 1))
        return self.run("write-tree").decode().strip()

    @contextmanager
    def _remove_unfinished_packs(self) -> Iterator[None]:
        """Delete unfinished packs after a failure: each try would leave one for a month."""
        packs = self._folder / "objects" / "pack"
        before = set(packs.glob("tmp_pack_*"))
        try:
            yield
        except Unavailable:
            for each in set(packs.glob("tmp_pack_*")) - before:
                each.unlink(missing_ok=True)
            raise

    def _find_changes(self) -> tuple[list[bytes], list[bytes]]:
        """Return the new or changed files, and those that are gone, too large, or no longer files."""
        found = self.run(
            "ls-files", "-z", "-t", "--others", "--modified", "--deleted", *self._exclude_options()
        )
        tags = {name: tag for tag, _, name in (each.partition(b" ") for each in found.split(b"\0")) if name}
        if len(tags) > MOST_FILES:
            raise Unavailable(f"{self.root} has more than {MOST_FILES} files, too many for snapshots")
        add, drop = [], []
        top = os.fsencode(self.root)
        for name, tag in tags.items():
            if name.endswith(b"/"):  # a nested repository
                continue
            if _is_kept(os.path.join(top, name)):
                add.append(name)
            elif tag != b"?":
                drop.append(name)
        return add, drop

    def _exclude_options(self) -> tuple[str, ...]:
        """Return the exclude options, with the project's own file if it is regular: a pipe would hang git."""
        own = self.root / ".git" / "info" / "exclude"
        with suppress(OSError):
            if stat.S_ISREG(own.lstat().st_mode):
                return "--exclude-standard", f"--exclude-from={own}"
        return ("--exclude-standard",)

    def files(self, tree: str) -> dict[str, SnapshotFile]:
        """Return the files of a tree by their names relative to the root."""
        found: dict[str, SnapshotFile] = {}
        for each in self.run("ls-tree", "-r", "-z", "--full-tree", require_tree_name(tree)).split(b"\0"):
            about, _, name = each.partition(b"\t")
            if name:
                mode, kind, blob = about.decode().split(" ")
                if kind == "blob":
                    found[os.fsdecode(name)] = SnapshotFile(mode, blob)
        return found

    def read_blobs(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the contents of blobs, read a few at a time."""
        for start in range(0, len(names), _BLOBS_AT_ONCE):
            some = names[start : start + _BLOBS_AT_ONCE]
            out = self.run("cat-file", "--batch", given="\n".join([*some, ""]).encode())
            at = 0
            for name in some:
                head, _, _ = out[at:].partition(b"\n")
                fields = head.split(b" ")
                if len(fields) != 3:
                    raise Unavailable("a snapshot is not complete any more, so its files cannot be put back")
                begin = at + len(head) + 1
                at = begin + int(fields[2]) + 1
                yield name, out[begin : at - 1]

    def has_tree(self, tree: str) -> bool:
        """Return whether a tree is still stored."""
        if _NAME.fullmatch(tree) is None:
            return False
        return bool(self.run("rev-parse", "--quiet", "--verify", f"{tree}^{{tree}}", fine=(0, 1, 128)))

    def delete_old(self) -> None:
        """Delete objects older than a month, at most once a day; needs no lock, since young objects stay."""
        mark, lock = self._folder / "asyncagents.swept", self._folder / "asyncagents.lock"
        if not mark.exists():
            return
        lock.touch()
        if lock.stat().st_mtime - mark.stat().st_mtime < DAY_SECONDS:
            return
        mark.touch()
        self.run("gc", "--quiet", f"--prune={RETENTION_DAYS}.days.ago", fine=(0, 1, 128))

    def run(self, *args: str, given: bytes = b"", fine: tuple[int, ...] = (0,)) -> bytes:
        try:
            done = subprocess.run(
                [self._git, *args],
                input=given,
                cwd=self.root,
                env=self._variables,
                capture_output=True,
                timeout=TIMEOUT_SECONDS,
                pass_fds=getattr(self._thread_locks, "locks", ()),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"git {_git_command(args)} took more than {TIMEOUT_SECONDS:.0f} s in {self.root}"
            ) from error
        except OSError as error:
            raise Unavailable(f"git cannot be run in {self.root}: {error.strerror}") from error
        if done.returncode not in fine:
            why = done.stderr.decode(errors="replace").strip().splitlines()
            raise Unavailable(
                f"git {_git_command(args)} failed in {self.root}: {why[-1] if why else done.returncode}"
            )
        return done.stdout


def require_tree_name(tree: str) -> str:
    """Return a valid tree id, or raise `Unavailable`: that of an imported part could be a git option."""
    if _NAME.fullmatch(tree) is None:
        raise Unavailable("the snapshot id is not valid: it must have 40 or 64 hexadecimal digits")
    return tree


def _git_command(args: Sequence[str]) -> str:
    return args[len(_PACK_OPTIONS)] if args[: len(_PACK_OPTIONS)] == _PACK_OPTIONS else args[0]


def find_git(variables: Mapping[str, str], *, outside: Path | None = None) -> str:
    found = find_program("git", variables.get("PATH"), outside=outside)
    if found is None:
        raise Unavailable("git is not installed, so no snapshots of files are taken")
    return found


def _is_kept(path: bytes) -> bool:
    try:
        about = os.lstat(path)
    except OSError:
        return False
    if stat.S_ISREG(about.st_mode):
        return about.st_size <= MOST_BYTES and os.access(path, os.R_OK)
    return stat.S_ISLNK(about.st_mode)


def _join_names(names: Sequence[bytes]) -> bytes:
    return b"\0".join([*names, b""])
