"""Find out from the files whether a patch was applied before a crash."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, assert_never

from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.fingerprint import Content
from asyncagents.tools.file.path import Outside
from asyncagents.tools.file.text_replace import NoMatch
from asyncagents.tools.patch.apply import applied
from asyncagents.tools.patch.bind import Target, look
from asyncagents.tools.patch.parse import AddFile, DeleteFile, Hunk, Line, UpdateFile

State: TypeAlias = Literal["before", "after", "unknown"]
_OTHER_WAY = {" ": " ", "+": "-", "-": "+"}


def reconciled(files: Files, targets: Sequence[Target]) -> Result | None:
    """Return the result of an interrupted patch; None if a file could be as before or as after.

    Each file is replaced atomically.
    """
    states: dict[State, list[Target]] = {"before": [], "after": [], "unknown": []}
    for target in targets:
        states[_state(files, target)].append(target)
    if states["unknown"]:
        return None
    if not states["before"]:
        return Completed("\n".join(["The patch was applied:", *(each.told for each in targets)]))
    if not states["after"]:
        return Failed("The process stopped before the patch changed anything: call patch again.")
    changed, missing = (", ".join(each.place.name for each in states[key]) for key in ("after", "before"))
    return Failed(
        f"The process stopped in the midst of the patch: {changed} is as the patch says, {missing} is not "
        "changed yet: call patch again with what is missing."
    )


def _state(files: Files, target: Target) -> State:
    if any(isinstance(place, Outside) for place in target.places):
        return "unknown"
    try:
        befores = look(files, target)
    except ToolError:
        return "unknown"
    match target.section:
        case AddFile(content=content):
            return _judged(befores[0] is None, befores[0] is not None and befores[0].data == content.encode())
        case DeleteFile():
            return _judged(befores[0] is not None, befores[0] is None)
        case UpdateFile() as update:
            return _update_state(update, befores)
        case _:
            assert_never(target.section)


def _update_state(update: UpdateFile, befores: tuple[Content | None, ...]) -> State:
    if update.move_to is not None:
        old, new = befores
        return _judged(old is not None and new is None, old is None and new is not None)
    back = tuple(map(_reversed, update.hunks))
    return _judged(_fits(befores[0], update.hunks), _fits(befores[0], back))


def _judged(before: bool, after: bool) -> State:
    if before == after:
        return "unknown"
    return "before" if before else "after"


def _fits(content: Content | None, hunks: tuple[Hunk, ...]) -> bool:
    if content is None:
        return False
    try:
        applied(content.data.decode(), hunks)
    except (NoMatch, UnicodeDecodeError):
        return False
    return True


def _reversed(hunk: Hunk) -> Hunk:
    return replace(hunk, lines=tuple(Line(_OTHER_WAY[line.sign], line.text) for line in hunk.lines))
