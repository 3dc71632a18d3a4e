"""Change several files, all or none: steps done before a failure are undone."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.errors import ToolError
from asyncagents.tools.file.edit_plan import sha_of, surprise
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import Content, Stamp
from asyncagents.tools.file.path import Place

_ANYONE_WRITES = 0o222


class Step(Struct, frozen=True):
    """The change of one file; `before` or `after` None: the file does not exist then."""

    place: Place
    before: Content | None
    after: bytes | None
    like: Content | None = None
    """The file whose mode a new file gets."""


class Done(Struct, frozen=True):
    step: Step
    stamp: Stamp | None
    """Of the written file; None: the file was removed."""


def carry_out(files: Files, steps: Sequence[Step], key: str) -> tuple[Done, ...]:
    """Apply all steps, or undo them and raise; only a crash can leave some applied."""
    folders = _missing_folders(files, steps)
    done: list[Done] = []
    try:
        for step in sorted(steps, key=lambda step: step.after is None):  # removals last
            stamp = _do(files, step, key)
            done.append(Done(step, stamp))
    except BaseException as error:
        left = _undo(files, done, folders, f"{key}/undo")
        if not isinstance(error, ToolError):
            raise
        raise ToolError(_told(error, done, left)) from error
    return tuple(done)


def _do(files: Files, step: Step, key: str) -> Stamp | None:
    if step.after is not None:
        return files.rewrite(step.place, key, _from(step.place, step.before, step.after), like=step.like)
    if step.before is not None:
        if not step.before.mode & _ANYONE_WRITES:
            raise ToolError(f"{step.place.name} is read-only; change its mode first if it is meant to go.")
        files.remove(step.place, step.before.stamp)
    return None


def _from(place: Place, before: Content | None, after: bytes) -> Callable[[Content | None], bytes]:
    def checked(now: Content | None) -> bytes:
        if sha_of(now) != sha_of(before):
            raise surprise(place)
        return after

    return checked


def _undo(files: Files, done: Sequence[Done], folders: Sequence[Place], key: str) -> list[str]:
    """Undo the steps; return the names of files that could not be restored."""
    left: list[str] = []
    for each in reversed(done):
        try:
            _put_back(files, each, key)
        except ToolError:
            left.append(each.step.place.name)
    for folder in reversed(folders):
        with suppress(ToolError):  # it contains other files, or was never created
            files.remove_folder(folder)
    return left


def _put_back(files: Files, done: Done, key: str) -> None:
    step = done.step
    if step.before is None:
        if done.stamp is not None:
            files.remove(step.place, done.stamp)
        return
    data = step.before.data
    wanted = done.stamp.sha256 if done.stamp else sha_of(None)

    def checked(now: Content | None) -> bytes:
        if sha_of(now) != wanted:
            raise surprise(step.place)
        return data

    files.rewrite(step.place, key, checked, like=step.before)


def _missing_folders(files: Files, steps: Sequence[Step]) -> list[Place]:
    """Return the missing folders of new files, outermost first."""
    found: dict[str, Place] = {}
    for step in steps:
        if step.before is None:
            for depth in range(1, len(step.place.parts)):
                folder = replace(step.place, parts=step.place.parts[:depth])
                if folder.path not in found and not files.is_folder(folder):
                    found[folder.path] = folder
    return sorted(found.values(), key=lambda folder: len(folder.parts))


def _told(error: ToolError, done: Sequence[Done], left: list[str]) -> str:
    if left:
        return (
            f"{error} The patch was given up, but these files could not be put back and are changed: "
            f"{', '.join(left)}; look at them."
        )
    put_back = " what was written before it was put back" if done else " nothing had been written yet"
    return f"{error} No file is changed:{put_back}."
