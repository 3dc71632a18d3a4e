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

from asyncagents.domain.agent.sandbox import Sandbox, is_beneath
from asyncagents.tools.file.remove_tree import remove_tree
from asyncagents.tools.output.limit import KEPT_MS
from asyncagents.tools.process.processes import UNSHARE_NETWORK
from asyncagents.tools.process.unix_sockets import list_sockets

Kind: TypeAlias = Literal["hide", "read", "write"]
SCRATCH = "scratch"
"""The subfolder of the data directory that holds the temporary folders."""

# Folders with sockets of the user's and the system's programs: a socket works even if mounted read-only.
_DOORS = ("/run", "/var/run", "/var/snap/lxd", "/var/lib/lxd", "/var/lib/incus")
_RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
_OF_SYSTEM = ("/run/current-system", "/run/opengl-driver")
# Below the home folder: where programs keep keys, passwords and sessions.
_PRIVATE = """
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
_GUARDED = (
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/info", ".asyncagents", ".agents", ".opencode",
    ".claude", "asyncagents.json", "asyncagents.jsonc", "opencode.json", "opencode.jsonc",
)  # fmt: skip
_DROPPED = ("--cap-drop", "ALL")
# Root expects to write files of other users; none of these capabilities leads out of the sandbox.
_OF_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
# Settings of the whole machine in /proc, which root may write without any capability.
_MACHINE = ("sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi", "fs", "mtrr")
_MOST_LINKS = 40
_MOST_NAMED = 1000


class SandboxPlaces(Struct, frozen=True, kw_only=True):
    """The paths that matter to the sandboxes of one project."""

    root: Path
    home: Path
    scratch: Path
    """Holds a temporary folder for each session."""
    ours: tuple[Path, ...]
    """Our data and configuration, hidden from commands."""
    folders: tuple[Path, ...] = ()
    """Those of `own_paths` that programs read: a missing one is created if commands could create it."""
    obeyed: tuple[Path, ...] = ()
    """Files that programs read at start: read-only if inside the project, as when it is a home folder."""
    program: tuple[Path, ...] = ()
    """Folders of our own program; they may be inside the project."""
    temporary: tuple[str, ...] = ("/tmp", "/var/tmp")
    """Folders that are replaced by a folder of the session."""


class Sandboxes:
    """The sandboxes of one project. Pinned paths are found at construction, before any command has run."""

    def __init__(self, places: SandboxPlaces) -> None:
        self._scratch = places.scratch
        self._temporary = list(dict.fromkeys(_real(places.temporary)))
        self._root = os.path.realpath(places.root)
        self._ours = places.ours
        self._folders = places.folders
        self._named: tuple[str, ...] = ()
        self._private = [os.path.join(places.home, each) for each in _PRIVATE]
        guarded = (os.path.join(self._root, each) for each in _GUARDED)
        programs = (path for each in places.program if is_beneath(path := os.path.realpath(each), self._root))
        hidden = (*_real(self._ours), *_real(self._private))
        obeyed = (
            each
            for each in map(str, places.obeyed)
            if _is_in(each, [self._root]) and not _is_in(each, hidden)
        )
        self._guarded = [path for path in (*guarded, *programs, *obeyed) if _is_itself(path)]
        if os.path.isfile(git := os.path.join(self._root, ".git")) and _is_itself(git):
            self._guarded.append(git)
        self._known = [*self._guarded, *_real(self._ours), *_real(self._private)]

    def learn_writable(self, paths: Iterable[str]) -> None:
        """Add writable paths of all agents' sandboxes: one agent may leave a link where another writes."""
        self._named = tuple(dict.fromkeys((*self._named, *paths)))[-_MOST_NAMED:]

    def arguments(self, sandbox: Sandbox, session_id: str, *, shown: Iterable[Path] = ()) -> tuple[str, ...]:
        """Return the bwrap options. Blocks: call it in a thread. `shown`: own folders that may be read."""
        own, empty = self._make_folder(session_id), self._make_empty_file()
        mounts = self._mounts(sandbox, shown)
        words = ["--unshare-ipc", *_DROPPED, *_capabilities(), "--ro-bind", "/", "/", "--dev", "/dev"]
        words += ["--proc", "/proc", *([] if sandbox.network else [UNSHARE_NETWORK])]
        for each in _real(os.path.join("/proc", name) for name in _MACHINE):
            words += ["--ro-bind", each, each]
        for each in self._temporary:
            words += ["--bind", own, each]
        for path in sorted(mounts, key=_depth):
            words += _mount(path, mounts[path], empty)
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

    def _make_folder(self, session_id: str) -> str:
        """Create a session's temporary folder, named by a hash: an imported session's id is untrusted."""
        name = sha256(session_id.encode("utf-8", "replace")).hexdigest()[:32]
        path = os.path.join(self._scratch, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        os.utime(path)
        return path

    def _mounts(self, sandbox: Sandbox, shown: Iterable[Path]) -> dict[str, Kind]:
        """Map the real path of each existing mount to its kind; a later kind for the same path wins."""
        named = self._find_named(sandbox)
        writable = [self._root, *self._writable(sandbox, named)]
        self._make_folders(writable)
        ours, private = _real(self._ours), _real(self._private)
        writable = [self._root, *(each for each in writable[1:] if not _is_in(each, ours))]
        # A path that is gone could come back as a link to elsewhere: it is no longer pinned or read-only.
        self._known = [each for each in self._known if _is_itself(each)]
        self._guarded = [each for each in self._guarded if _is_itself(each)]
        held = [each for each in named if _is_in(each, writable) and _is_itself(each)]
        around = (*held, *_around((*self._known, *held), writable))
        pins = [each for each in around if not _is_in(each, (*ours, *private))]
        doors = [
            *_real(_DOORS),
            *([] if sandbox.network else self._find_sockets((*writable, *ours, *private))),
        ]
        read = (*_OF_SYSTEM, *(_RESOLVER if sandbox.network else ()))
        return {
            **_all(doors, "hide"),
            **_all(_real(read), "read"),
            **_all(pins, "write"),
            **_all(private, "hide"),
            **_all(writable, "write"),
            **_all(ours, "hide"),
            **_all((each for each in _real(shown) if _is_in(each, ours)), "read"),
            **_all(self._guarded, "read"),
        }

    def _find_named(self, sandbox: Sandbox) -> list[str]:
        """Return the paths that any agent may write besides the project; create missing ones."""
        found: list[str] = []
        for each in sorted({*self._named, *sandbox.write}, key=_depth):
            path = _resolve(each, [self._root], found)
            if path is not None and path not in found:
                with suppress(OSError):  # the agent that names this path gets the error
                    os.makedirs(path, mode=0o700, exist_ok=True)
                found.append(path)
        return found

    def _writable(self, sandbox: Sandbox, named: Sequence[str]) -> Iterator[str]:
        """Yield the paths that the user names for this sandbox, except those inside a writable path."""
        found = [self._root]
        for each in sorted(sandbox.write, key=_depth):
            path = _resolve(each, found, named)
            if path is not None:
                if not os.path.lexists(path):
                    os.makedirs(path, mode=0o700)
                found.append(path)
                yield path

    def _make_folders(self, writable: Sequence[str]) -> None:
        """Create own folders that a command could create itself: programs obey their files at start."""
        for each in self._folders:
            path = os.path.realpath(each)
            if not os.path.lexists(path) and _is_in(path, writable):
                os.makedirs(path, mode=0o700)
                self._known.append(path)

    def _find_sockets(self, left_out: Sequence[str]) -> list[str]:
        """Return the unix sockets on this machine, which work without a network."""
        known = (*left_out, *self._temporary, *_real(_DOORS))
        return [each for each in list_sockets() if not _is_in(each, known)]


def forget_scratch(folder: Path, now: int) -> None:
    """Delete temporary folders that no command used for seven days before `now` (milliseconds)."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if (
                    entry.is_dir(follow_symlinks=False)
                    and now - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000 > KEPT_MS
                ):
                    remove_tree(entry.path)


def _all(paths: Iterable[str], kind: Kind) -> dict[str, Kind]:
    return dict.fromkeys(paths, kind)


def _depth(path: str) -> int:
    return len(Path(path).parts)


def _around(places: Iterable[str], writable: Sequence[str]) -> Iterator[str]:
    """Yield the writable parents of places: unless mounted, a command could rename them with the place."""
    for place in places:
        yield from (str(folder) for folder in Path(place).parents if _is_in(str(folder), writable))


def _capabilities() -> list[str]:
    return [word for each in _OF_ROOT for word in ("--cap-add", each)] if os.geteuid() == 0 else []


def _mount(path: str, kind: Kind, empty: str) -> list[str]:
    if kind == "write":
        return ["--bind", path, path]
    if kind == "read":
        return ["--ro-bind", path, path]
    return ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", empty, path]


def _real(paths: Iterable[str | Path]) -> list[str]:
    """Return the real paths of those that exist."""
    found = [os.path.realpath(each) for each in paths]
    return [each for each in found if os.path.exists(each)]


def _is_in(path: str, places: Iterable[str]) -> bool:
    return any(is_beneath(path, each) for each in places)


def _is_itself(path: str) -> bool:
    """Return whether a path is an existing file or folder with no link in it."""
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        return os.path.realpath(path) == path and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _resolve(path: str, writable: Sequence[str], of_others: Sequence[str]) -> str | None:
    """Follow links, except those that a command could have made: return None for a path inside a writable
    folder, and for a link in a folder that other agents' commands may write."""
    left, place, links = path.split(os.sep)[::-1], "/", 0
    while left:
        name = left.pop()
        if _is_in(place, writable):
            return None
        if name in ("", "."):
            continue
        place = os.path.dirname(place) if name == ".." else os.path.join(place, name)
        if os.path.islink(place):
            links += 1
            if links > _MOST_LINKS or _is_in(os.path.dirname(place), of_others):
                return None
            target = os.readlink(place)
            place = "/" if os.path.isabs(target) else os.path.dirname(place)
            left += target.split(os.sep)[::-1]
    return None if _is_in(place, writable) else place
