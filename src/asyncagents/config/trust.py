"""The projects that the user trusts, whose files may send, run and read anything."""

import fcntl
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents.config.env import Environment
from asyncagents.config.paths import config_folder, worktree_folders
from asyncagents.config.text_file import read_text
from asyncagents.config.tree import KeyPath, dotted_path
from asyncagents.config.untrusted_settings import TRUST_VARIABLE
from asyncagents.errors import ConfigError

_YES = {"1", "true", "yes"}
_MOST_NAMES, _LONGEST_NAME = 6, 60


class _TrustFile(Struct, frozen=True):
    trusted: list[str]


def project_root(environment: Environment, directory: Path) -> Path:
    """Return the real path of the worktree's root, or of the directory if there is no worktree."""
    return _real_path(worktree_folders(environment.folder(str(directory)))[0])


def is_trusted(environment: Environment, directory: Path) -> bool:
    """Return whether all folders that are read for `directory` lie in trusted projects."""
    if environment.get(TRUST_VARIABLE).strip().lower() in _YES:
        return True
    roots = set(trusted_roots(environment))
    folders = [_real_path(folder) for folder in worktree_folders(environment.folder(str(directory)))]
    return all(not roots.isdisjoint([folder, *folder.parents]) for folder in folders)


def trusted_roots(environment: Environment) -> list[Path]:
    file = trust_file(environment)
    text = read_text(file)
    if text is None:
        return []
    try:
        return [Path(root) for root in msgspec.json.decode(text, type=_TrustFile).trusted]
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"{file} is damaged: remove it and trust your projects again") from error


def trust_file(environment: Environment) -> Path:
    return config_folder(environment, "asyncagents") / "trusted.json"


def trust_project(environment: Environment, root: Path) -> None:
    """Trust the root and all below it; raises `ConfigError` for a folder that contains the home directory."""
    home = _real_path(environment.home)
    if root in (home, *home.parents):
        raise ConfigError(
            f"{root} contains your home directory, and trust covers everything below: "
            f"put your own settings in {config_folder(environment, 'asyncagents') / 'asyncagents.json'}, "
            f"or set {TRUST_VARIABLE}=1 for one command"
        )
    _update_roots(environment, lambda roots: sorted({*roots, root}))


def distrust_project(environment: Environment, root: Path) -> bool:
    """Stop trusting the root; returns False if it was not trusted itself."""
    if root not in trusted_roots(environment):
        return False
    _update_roots(environment, lambda roots: [each for each in roots if each != root])
    return True


def untrusted_warning(left_out: Mapping[str, Sequence[KeyPath]], root: Path) -> list[str]:
    """Return one warning for all files, or none; it says what is ignored and what to do."""
    if not left_out:
        return []
    found = [
        dotted_path(path if path[0] in {"agent", "mode"} else path[:2])
        for paths in left_out.values()
        for path in paths
    ]
    names = [
        name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…" for name in dict.fromkeys(found)
    ]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return [
        f"{', '.join(left_out)}: this project is not trusted, so this is ignored: "
        f"{', '.join(names[:_MOST_NAMES])}{more}; if you know who wrote it, run "
        f"`asyncagents trust {shlex.quote(str(root))}` or set {TRUST_VARIABLE}=1"
    ]


def _update_roots(environment: Environment, change: Callable[[list[Path]], list[Path]]) -> None:
    file = trust_file(environment)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _lock_folder(file.parent):
            roots = change(trusted_roots(environment))
            _write_atomically(file, msgspec.json.encode(_TrustFile([str(root) for root in roots])))
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror}): make its folder yours to write"
        ) from error


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that concurrent changes do not overwrite each other."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_atomically(file: Path, content: bytes) -> None:
    """Replace the file atomically, readable only by its owner."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(descriptor, "wb") as draft:
            draft.write(content)
            draft.flush()
            os.fsync(draft.fileno())
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


def _real_path(path: Path) -> Path:
    return Path(os.path.realpath(path))
