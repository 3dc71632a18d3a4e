"""Build the bwrap sandbox of an agent's commands: which parts of the disk they see, and whether a network.

The disk is read-only except for the project, a temporary folder and the paths that the user names. Our own
files, and those that usually hold keys, are hidden. The mount of a deeper path overrides that of its parents.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.agent.guarded import OUR_FILES, OUR_FOLDERS
from asyncagents.domain.agent.sandbox import Sandbox, is_beneath
from asyncagents.tools.file.remove_tree import remove_tree
from asyncagents.tools.output.limit import RETENTION_MS
from asyncagents.tools.process.processes import UNSHARE_NETWORK
from asyncagents.tools.process.unix_sockets import list_sockets

MountKind: TypeAlias = Literal["hide", "read", "write"]
SCRATCH = "scratch"
"""The subfolder of the data directory that holds the temporary folders."""

# Folders with sockets of the user's and the system's programs: a socket works even if mounted read-only.
_SOCKET_FOLDERS = ("/run", "/var/run", "/var/snap/lxd", "/var/lib/lxd", "/var/lib/incus")
_RESOLVER_FOLDERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
_SYSTEM_FOLDERS = ("/run/current-system", "/run/opengl-driver")
# Below the home folder: where programs keep keys, passwords and sessions.
_PRIVATE_PATHS = """
.ssh .gnupg .aws .azure .kube .docker .oci .netrc .pgpass .my.cnf .pypirc .npmrc .yarnrc.yml .git-credentials
.vault-token .terraform.d .password-store .mozilla .thunderbird .config/gcloud .config/gh .config/glab-cli
.config/hub .config/git/credentials .config/op .config/google-chrome .config/chromium .config/BraveSoftware
.config/containers .config/rclone .config/doctl .config/heroku .config/sops .local/share/keyrings
.local/share/opencode .local/share/atuin .cargo/credentials .cargo/credentials.toml .gem/credentials
.m2/settings.xml .gradle/gradle.properties .composer/auth.json .config/composer/auth.json .huggingface
.cache/huggingface/token .claude.json .claude/.credentials.json .codex .gemini .bash_history .zsh_history
.python_history .psql_history .mysql_history .node_repl_history
""".split()  # noqa: SIM905  a table
# Files that git runs, and files that configure agents: read-only if they existed at the first look.
_GUARDED_PATHS = (
    *(".git/hooks", ".git/config", ".git/config.worktree", ".git/info"),
    *OUR_FOLDERS,
    *OUR_FILES,
)
_DROP_CAPABILITIES = ("--cap-drop", "ALL")
# Root expects to write files of other users; none of these capabilities leads out of the sandbox.
_ROOT_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
# Settings of the whole machine in /proc, which root may write without any capability.
_MACHINE_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi", "fs", "mtrr")
_MOST_LINKS = 40
_MOST_NAMED = 1000


class SandboxPaths(Struct, frozen=True, kw_only=True):
    """The paths that matter to the sandboxes of one project."""

    root: Path
    home: Path
    scratch: Path
    """Holds a temporary folder for each session."""
    own_paths: tuple[Path, ...]
    """Our data and configuration, hidden from commands."""
    own_folders: tuple[Path, ...] = ()
    """Those of `own_paths` that programs read: a missing one is created if commands could create it."""
    startup_files: tuple[Path, ...] = ()
    """Files that programs read at start: read-only if inside the project, as when it is a home folder."""
    program: tuple[Path, ...] = ()
    """Folders of our own program; they may be inside the project."""
    temporary: tuple[str, ...] = ("/tmp", "/var/tmp")
    """Folders that are replaced by a folder of the session."""


class Sandboxes:
    """The sandboxes of one project. Pinned paths are found at construction, before any command has run."""

    def __init__(self, paths: SandboxPaths) -> None:
        self._scratch = paths.scratch
        self._temporary = list(dict.fromkeys(_real_paths(paths.temporary)))
        self._root = os.path.realpath(paths.root)
        self._own_paths = paths.own_paths
        self._own_folders = paths.own_folders
        self._writable_by_any: tuple[str, ...] = ()
        self._private = [os.path.join(paths.home, each) for each in _PRIVATE_PATHS]
        guarded = (os.path.join(self._root, each) for each in _GUARDED_PATHS)
        programs = (path for each in paths.program if is_beneath(path := os.path.realpath(each), self._root))
        hidden = (*_real_paths(self._own_paths), *_real_paths(self._private))
        obeyed = (
            each
            for each in map(str, paths.startup_files)
            if _is_beneath_any(each, [self._root]) and not _is_beneath_any(each, hidden)
        )
        self._read_only = [path for path in (*guarded, *programs, *obeyed) if _is_real_path(path)]
        if os.path.isfile(git := os.path.join(self._root, ".git")) and _is_real_path(git):
            self._read_only.append(git)
        self._pinned = [*self._read_only, *_real_paths(self._own_paths), *_real_paths(self._private)]

    def add_writable(self, paths: Iterable[str]) -> None:
        """Add writable paths of all agents' sandboxes: one agent may leave a link where another writes."""
        self._writable_by_any = tuple(dict.fromkeys((*self._writable_by_any, *paths)))[-_MOST_NAMED:]

    def bwrap_arguments(
        self, sandbox: Sandbox, session_id: str, *, shown: Iterable[Path] = ()
    ) -> tuple[str, ...]:
        """Return the bwrap options. Blocks: call it in a thread. `shown`: own folders that may be read."""
        own, empty = self._make_scratch_folder(session_id), self._make_empty_file()
        mounts = self._plan_mounts(sandbox, shown)
        words = [
            "--unshare-ipc",
            *_DROP_CAPABILITIES,
            *_capability_arguments(),
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
        ]
        words += ["--proc", "/proc", *([] if sandbox.network else [UNSHARE_NETWORK])]
        for each in _real_paths(os.path.join("/proc", name) for name in _MACHINE_SETTINGS):
            words += ["--ro-bind", each, each]
        for each in self._temporary:
            words += ["--bind", own, each]
        for path in sorted(mounts, key=_depth):
            words += _mount_arguments(path, mounts[path], empty)
        for path in mounts:
            words += ["--remount-ro", path] if mounts[path] == "hide" and os.path.isdir(path) else []
        for each in self._temporary[:1]:
            words += ["--setenv", "TMPDIR", each]
        return tuple(words)

    def _make_empty_file(self) -> str:
        """Create the empty file that is mounted over hidden files; return its path."""
        path = os.path.join(self._scratch, "empty")
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o400))
        return path

    def _make_scratch_folder(self, session_id: str) -> str:
        """Create a session's temporary folder, named by a hash: an imported session's id is untrusted."""
        name = sha256(session_id.encode("utf-8", "replace")).hexdigest()[:32]
        path = os.path.join(self._scratch, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        os.utime(path)
        return path

    def _plan_mounts(self, sandbox: Sandbox, shown: Iterable[Path]) -> dict[str, MountKind]:
        """Map the real path of each existing mount to its kind; a later kind for the same path wins."""
        named = self._find_writable_by_any(sandbox)
        writable = [self._root, *self._find_writable(sandbox, named)]
        self._make_own_folders(writable)
        ours, private = _real_paths(self._own_paths), _real_paths(self._private)
        writable = [self._root, *(each for each in writable[1:] if not _is_beneath_any(each, ours))]
        # A path that is gone could come back as a link to elsewhere: it is no longer pinned or read-only.
        self._pinned = [each for each in self._pinned if _is_real_path(each)]
        self._read_only = [each for each in self._read_only if _is_real_path(each)]
        held = [each for each in named if _is_beneath_any(each, writable) and _is_real_path(each)]
        around = (*held, *_parents_in((*self._pinned, *held), writable))
        pins = [each for each in around if not _is_beneath_any(each, (*ours, *private))]
        doors = [
            *_real_paths(_SOCKET_FOLDERS),
            *([] if sandbox.network else self._find_sockets((*writable, *ours, *private))),
        ]
        read = (*_SYSTEM_FOLDERS, *(_RESOLVER_FOLDERS if sandbox.network else ()))
        return {
            **_with_kind(doors, "hide"),
            **_with_kind(_real_paths(read), "read"),
            **_with_kind(pins, "write"),
            **_with_kind(private, "hide"),
            **_with_kind(writable, "write"),
            **_with_kind(ours, "hide"),
            **_with_kind((each for each in _real_paths(shown) if _is_beneath_any(each, ours)), "read"),
            **_with_kind(self._read_only, "read"),
        }

    def _find_writable_by_any(self, sandbox: Sandbox) -> list[str]:
        """Return the paths that any agent may write besides the project; create missing ones."""
        found: list[str] = []
        for each in sorted({*self._writable_by_any, *sandbox.write}, key=_depth):
            path = _resolve_safely(each, [self._root], found)
            if path is not None and path not in found:
                with suppress(OSError):  # the agent that names this path gets the error
                    os.makedirs(path, mode=0o700, exist_ok=True)
                found.append(path)
        return found

    def _find_writable(self, sandbox: Sandbox, named: Sequence[str]) -> Iterator[str]:
        """Yield the paths that the user names for this sandbox, except those inside a writable path."""
        found = [self._root]
        for each in sorted(sandbox.write, key=_depth):
            path = _resolve_safely(each, found, named)
            if path is not None:
                if not os.path.lexists(path):
                    os.makedirs(path, mode=0o700)
                found.append(path)
                yield path

    def _make_own_folders(self, writable: Sequence[str]) -> None:
        """Create own folders that a command could create itself: programs obey their files at start."""
        for each in self._own_folders:
            path = os.path.realpath(each)
            if not os.path.lexists(path) and _is_beneath_any(path, writable):
                os.makedirs(path, mode=0o700)
                self._pinned.append(path)

    def _find_sockets(self, left_out: Sequence[str]) -> list[str]:
        """Return the unix sockets on this machine, which work without a network."""
        known = (*left_out, *self._temporary, *_real_paths(_SOCKET_FOLDERS))
        return [each for each in list_sockets() if not _is_beneath_any(each, known)]


def delete_old_scratch(folder: Path, now: int) -> None:
    """Delete temporary folders that no command used for seven days before `now` (milliseconds)."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if (
                    entry.is_dir(follow_symlinks=False)
                    and now - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000 > RETENTION_MS
                ):
                    remove_tree(entry.path)


def _with_kind(paths: Iterable[str], kind: MountKind) -> dict[str, MountKind]:
    return dict.fromkeys(paths, kind)


def _depth(path: str) -> int:
    return len(Path(path).parts)


def _parents_in(places: Iterable[str], writable: Sequence[str]) -> Iterator[str]:
    """Yield the writable parents of places: unless mounted, a command could rename them with the place."""
    for place in places:
        yield from (str(folder) for folder in Path(place).parents if _is_beneath_any(str(folder), writable))


def _capability_arguments() -> list[str]:
    return [word for each in _ROOT_CAPABILITIES for word in ("--cap-add", each)] if os.geteuid() == 0 else []


def _mount_arguments(path: str, kind: MountKind, empty: str) -> list[str]:
    if kind == "write":
        return ["--bind", path, path]
    if kind == "read":
        return ["--ro-bind", path, path]
    return ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", empty, path]


def _real_paths(paths: Iterable[str | Path]) -> list[str]:
    """Return the real paths of those that exist."""
    found = [os.path.realpath(each) for each in paths]
    return [each for each in found if os.path.exists(each)]


def _is_beneath_any(path: str, places: Iterable[str]) -> bool:
    return any(is_beneath(path, each) for each in places)


def _is_real_path(path: str) -> bool:
    """Return whether a path is an existing file or folder with no link in it."""
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        return os.path.realpath(path) == path and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _resolve_safely(path: str, writable: Sequence[str], of_others: Sequence[str]) -> str | None:
    """Follow links, except those that a command could have made: return None for a path inside a writable
    folder, and for a link in a folder that other agents' commands may write."""
    left, place, links = path.split(os.sep)[::-1], "/", 0
    while left:
        name = left.pop()
        if _is_beneath_any(place, writable):
            return None
        if name in ("", "."):
            continue
        place = os.path.dirname(place) if name == ".." else os.path.join(place, name)
        if os.path.islink(place):
            links += 1
            if links > _MOST_LINKS or _is_beneath_any(os.path.dirname(place), of_others):
                return None
            target = os.readlink(place)
            place = "/" if os.path.isabs(target) else os.path.dirname(place)
            left += target.split(os.sep)[::-1]
    return None if _is_beneath_any(place, writable) else place
