"""Change several files, all or none: steps done before a failure are undone."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.errors import ToolError
from asyncagents.tools.file.edit_plan import sha_of, stale_file_error
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import FileState, Fingerprint
from asyncagents.tools.file.path import ResolvedPath

_ANYONE_WRITES = 0o222


class FileStep(Struct, frozen=True):
    """The change of one file; `before` or `after` None: the file does not exist then."""

    place: ResolvedPath
    before: FileState | None
    after: bytes | None
    mode_from: FileState | None = None
    """The file whose mode a new file gets."""


class DoneStep(Struct, frozen=True):
    step: FileStep
    fingerprint: Fingerprint | None
    """Of the written file; None: the file was removed."""


def apply_steps(files: Files, steps: Sequence[FileStep], key: str) -> tuple[DoneStep, ...]:
    """Apply all steps, or undo them and raise; only a crash can leave some applied."""
    folders = _missing_folders(files, steps)
    done: list[DoneStep] = []
    try:
        for step in sorted(steps, key=lambda step: step.after is None):  # removals last
            stamp = _apply_step(files, step, key)
            done.append(DoneStep(step, stamp))
    except BaseException as error:
        left = _undo_steps(files, done, folders, f"{key}/undo")
        if not isinstance(error, ToolError):
            raise
        raise ToolError(_failure_text(error, done, left)) from error
    return tuple(done)


def _apply_step(files: Files, step: FileStep, key: str) -> Fingerprint | None:
    if step.after is not None:
        return files.rewrite(
            step.place, key, _content_builder(step.place, step.before, step.after), like=step.mode_from
        )
    if step.before is not None:
        if not step.before.mode & _ANYONE_WRITES:
            raise ToolError(f"{step.place.name} is read-only; change its mode first if it is meant to go.")
        files.remove(step.place, step.before.fingerprint)
    return None


def _content_builder(
    place: ResolvedPath, before: FileState | None, after: bytes
) -> Callable[[FileState | None], bytes]:
    def build_checked(now: FileState | None) -> bytes:
        if sha_of(now) != sha_of(before):
            raise stale_file_error(place)
        return after

    return build_checked


def _undo_steps(
    files: Files, done: Sequence[DoneStep], folders: Sequence[ResolvedPath], key: str
) -> list[str]:
    """Undo the steps; return the names of files that could not be restored."""
    left: list[str] = []
    for each in reversed(done):
        try:
            _undo_step(files, each, key)
        except ToolError:
            left.append(each.step.place.name)
    for folder in reversed(folders):
        with suppress(ToolError):  # it contains other files, or was never created
            files.remove_folder(folder)
    return left


def _undo_step(files: Files, done: DoneStep, key: str) -> None:
    step = done.step
    if step.before is None:
        if done.fingerprint is not None:
            files.remove(step.place, done.fingerprint)
        return
    data = step.before.data
    wanted = done.fingerprint.sha256 if done.fingerprint else sha_of(None)

    def build_checked(now: FileState | None) -> bytes:
        if sha_of(now) != wanted:
            raise stale_file_error(step.place)
        return data

    files.rewrite(step.place, key, build_checked, like=step.before)


def _missing_folders(files: Files, steps: Sequence[FileStep]) -> list[ResolvedPath]:
    """Return the missing folders of new files, outermost first."""
    found: dict[str, ResolvedPath] = {}
    for step in steps:
        if step.before is None:
            for depth in range(1, len(step.place.parts)):
                folder = replace(step.place, parts=step.place.parts[:depth])
                if folder.path not in found and not files.is_folder(folder):
                    found[folder.path] = folder
    return sorted(found.values(), key=lambda folder: len(folder.parts))


def _failure_text(error: ToolError, done: Sequence[DoneStep], left: list[str]) -> str:
    if left:
        return (
            f"{error} The patch was given up, but these files could not be put back and are changed: "
            f"{', '.join(left)}; look at them."
        )
    put_back = " what was written before it was put back" if done else " nothing had been written yet"
    return f"{error} No file is changed:{put_back}."
