"""Find out from the files whether a patch was applied before a crash."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, assert_never

from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import FileState
from asyncagents.tools.file.path import OutsidePath
from asyncagents.tools.file.text_replace import NoMatch
from asyncagents.tools.patch.apply import apply_hunks
from asyncagents.tools.patch.parse import AddFile, DeleteFile, Hunk, PatchLine, UpdateFile
from asyncagents.tools.patch.targets import PatchTarget, read_target

PatchState: TypeAlias = Literal["before", "after", "unknown"]
_REVERSED_SIGN = {" ": " ", "+": "-", "-": "+"}


def reconcile_patch(files: Files, targets: Sequence[PatchTarget]) -> Result | None:
    """Return the result of an interrupted patch; None if a file could be as before or as after.

    Each file is replaced atomically.
    """
    states: dict[PatchState, list[PatchTarget]] = {"before": [], "after": [], "unknown": []}
    for target in targets:
        states[_target_state(files, target)].append(target)
    if states["unknown"]:
        return None
    if not states["before"]:
        return Completed("\n".join(["The patch was applied:", *(each.summary_line for each in targets)]))
    if not states["after"]:
        return Failed("The process stopped before the patch changed anything: call patch again.")
    changed, missing = (", ".join(each.place.name for each in states[key]) for key in ("after", "before"))
    return Failed(
        f"The process stopped in the midst of the patch: {changed} is as the patch says, {missing} is not "
        "changed yet: call patch again with what is missing."
    )


def _target_state(files: Files, target: PatchTarget) -> PatchState:
    if any(isinstance(place, OutsidePath) for place in target.places):
        return "unknown"
    try:
        befores = read_target(files, target)
    except ToolError:
        return "unknown"
    match target.section:
        case AddFile(content=content):
            return _decide_state(
                befores[0] is None, befores[0] is not None and befores[0].data == content.encode()
            )
        case DeleteFile():
            return _decide_state(befores[0] is not None, befores[0] is None)
        case UpdateFile() as update:
            return _update_state(update, befores)
        case _:
            assert_never(target.section)


def _update_state(update: UpdateFile, befores: tuple[FileState | None, ...]) -> PatchState:
    if update.move_to is not None:
        old, new = befores
        return _decide_state(old is not None and new is None, old is None and new is not None)
    back = tuple(map(_reverse_hunk, update.hunks))
    return _decide_state(_hunks_fit(befores[0], update.hunks), _hunks_fit(befores[0], back))


def _decide_state(before: bool, after: bool) -> PatchState:
    if before == after:
        return "unknown"
    return "before" if before else "after"


def _hunks_fit(content: FileState | None, hunks: tuple[Hunk, ...]) -> bool:
    if content is None:
        return False
    try:
        apply_hunks(content.data.decode(), hunks)
    except (NoMatch, UnicodeDecodeError):
        return False
    return True


def _reverse_hunk(hunk: Hunk) -> Hunk:
    return replace(hunk, lines=tuple(PatchLine(_REVERSED_SIGN[line.sign], line.text) for line in hunk.lines))
