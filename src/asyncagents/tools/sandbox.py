"""The sandbox of an agent's commands: what bwrap shows them of the disk, and whether there is a network.

The disk is read-only but for the project, a temporary folder and what the user names. Our own files, and
what people keep their keys in, are not there at all. A deeper place goes before the one around it.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.sandbox import Sandbox, is_beneath
from asyncagents.tools.cap import KEPT_MS
from asyncagents.tools.process import UNSHARE_NETWORK
from asyncagents.tools.scratch import remove_tree
from asyncagents.tools.unix_socket import list_sockets

Kind: TypeAlias = Literal["hide", "read", "write"]
SCRATCH = "scratch"
"""The folder of temporary folders, in that of data."""

# Doors to programs of this user and of the system: a socket works where nothing can be written.
_DOORS = ("/run", "/var/run", "/var/snap/lxd", "/var/lib/lxd", "/var/lib/incus")
_RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
_OF_SYSTEM = ("/run/current-system", "/run/opengl-driver")
# Beneath home: where programs keep keys, passwords and sessions.
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
# What git runs by itself, and what says what agents may do: read-only, where it was there at the first look.
_GUARDED = (
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/info", ".asyncagents", ".agents", ".opencode",
    ".claude", "asyncagents.json", "asyncagents.jsonc", "opencode.json", "opencode.jsonc",
)  # fmt: skip
_DROPPED = ("--cap-drop", "ALL")
# Root is used to write what belongs to others; none of these leads out of the sandbox.
_OF_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
# Settings of the whole machine, which belong to root: it may write them without any capability.
_MACHINE = ("sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi", "fs", "mtrr")
_MOST_LINKS = 40
_MOST_NAMED = 1000


class SandboxPlaces(Struct, frozen=True, kw_only=True):
    """What lies where, for the commands of one project."""

    root: Path
    home: Path
    scratch: Path
    """Holds a temporary folder for each session."""
    ours: tuple[Path, ...]
    """Data and configuration, which no command sees."""
    folders: tuple[Path, ...] = ()
    """Those of `ours` that programs look into: one that is missing where commands write is made."""
    obeyed: tuple[Path, ...] = ()
    """What programs obey when they start: read-only where the project holds it, as a home does."""
    program: tuple[Path, ...] = ()
    """Where our own program lies; it may be in the project."""
    temporary: tuple[str, ...] = ("/tmp", "/var/tmp")
    """Folders in whose place each session has its own."""


class Sandboxes:
    """Of one project. What is pinned in it is found at the first look: before any of its commands ran."""

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
        """Learn what the sandboxes of all agents name: one may leave a link where another one writes."""
        self._named = tuple(dict.fromkeys((*self._named, *paths)))[-_MOST_NAMED:]

    def arguments(self, sandbox: Sandbox, session_id: str, *, shown: Iterable[Path] = ()) -> tuple[str, ...]:
        """Say it for bwrap. Blocking: for a thread. `shown`: folders of ours that may be read."""
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
        """What stands in the place of a file that is hidden."""
        path = os.path.join(self._scratch, "empty")
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o400))
        return path

    def _make_folder(self, session_id: str) -> str:
        """Make the folder of a session, under a name of ours: an imported session brings its own id."""
        name = sha256(session_id.encode("utf-8", "replace")).hexdigest()[:32]
        path = os.path.join(self._scratch, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        os.utime(path)
        return path

    def _mounts(self, sandbox: Sandbox, shown: Iterable[Path]) -> dict[str, Kind]:
        """Find the real name of each place that is there; of two words for one the later counts."""
        named = self._find_named(sandbox)
        writable = [self._root, *self._writable(sandbox, named)]
        self._make_folders(writable)
        ours, private = _real(self._ours), _real(self._private)
        writable = [self._root, *(each for each in writable[1:] if not _is_in(each, ours))]
        # One that is gone could come back as a link that leads elsewhere: it is pinned and guarded no more.
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
        """Find what commands of any agent may write besides the project; what is missing is made."""
        found: list[str] = []
        for each in sorted({*self._named, *sandbox.write}, key=_depth):
            path = _resolve(each, [self._root], found)
            if path is not None and path not in found:
                with suppress(OSError):  # another agent's; whose it is gets the error
                    os.makedirs(path, mode=0o700, exist_ok=True)
                found.append(path)
        return found

    def _writable(self, sandbox: Sandbox, named: Sequence[str]) -> Iterator[str]:
        """Those that the user names; not what lies in a place that commands can change already."""
        found = [self._root]
        for each in sorted(sandbox.write, key=_depth):
            path = _resolve(each, found, named)
            if path is not None:
                if not os.path.lexists(path):
                    os.makedirs(path, mode=0o700)
                found.append(path)
                yield path

    def _make_folders(self, writable: Sequence[str]) -> None:
        """Make folders of ours that a command could make itself: what lies in them is obeyed at a start."""
        for each in self._folders:
            path = os.path.realpath(each)
            if not os.path.lexists(path) and _is_in(path, writable):
                os.makedirs(path, mode=0o700)
                self._known.append(path)

    def _find_sockets(self, left_out: Sequence[str]) -> list[str]:
        """Find sockets of programs of this machine, which are reached without a network."""
        known = (*left_out, *self._temporary, *_real(_DOORS))
        return [each for each in list_sockets() if not _is_in(each, known)]


def forget_scratch(folder: Path, now: int) -> None:
    """Remove temporary folders that no command had for seven days before `now`, in milliseconds."""
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
    """Folders around places, which could be renamed with all that is in them if they were no mounts."""
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
    """By their real names; those that are not there are left out."""
    found = [os.path.realpath(each) for each in paths]
    return [each for each in found if os.path.exists(each)]


def _is_in(path: str, places: Iterable[str]) -> bool:
    return any(is_beneath(path, each) for each in places)


def _is_itself(path: str) -> bool:
    """Whether it is there, a file or folder, with no link on the way."""
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        return os.path.realpath(path) == path and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _resolve(path: str, writable: Sequence[str], of_others: Sequence[str]) -> str | None:
    """Follow links, but none that a command could have made: None for what lies in a writable place, and
    for a link in a place that another agent's commands may write."""
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
