"""Bind the sections of a patch to real files, and plan the steps of each."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.file.diff import unified_diff
from asyncagents.tools.file.edit_plan import stale_file_error
from asyncagents.tools.file.files import Files, MissingFile
from asyncagents.tools.file.fingerprint import FileState, Fingerprint
from asyncagents.tools.file.path import ResolvedPath
from asyncagents.tools.file.text import decode, encode, is_binary
from asyncagents.tools.patch.apply import apply_hunks
from asyncagents.tools.patch.commit import FileStep
from asyncagents.tools.patch.parse import AddFile, DeleteFile, Section, UpdateFile


class PatchTarget(Struct, frozen=True):
    section: Section
    place: ResolvedPath
    to: ResolvedPath | None = None
    """The new path of a moved file."""

    @property
    def places(self) -> tuple[ResolvedPath, ...]:
        return (self.place,) if self.to is None else (self.place, self.to)

    @property
    def summary_line(self) -> str:
        match self.section:
            case AddFile():
                return f"A {self.place.name}"
            case DeleteFile():
                return f"D {self.place.name}"
            case UpdateFile():
                return f"M {self.place.name}" if self.to is None else f"R {self.place.name} -> {self.to.name}"
            case _:
                assert_never(self.section)


def resolve_targets(files: Files, sections: Sequence[Section], directory: str) -> tuple[PatchTarget, ...]:
    places: list[ResolvedPath] = []
    for section in sections:
        places += (files.resolve(path, directory) for path in _section_paths(section))
    named: set[str] = set()
    for place in places:
        if place.path in named:
            raise ToolError(f"{place.name} is named twice in the patch: put its changes into one section.")
        named.add(place.path)
    return bind_sections(sections, places)


def bind_sections(sections: Sequence[Section], places: Sequence[ResolvedPath]) -> tuple[PatchTarget, ...]:
    """Bind sections to their places, given in the same order. Raises `ToolError` if the counts differ."""
    counts = [len(_section_paths(section)) for section in sections]
    if sum(counts) != len(places):
        raise ToolError("This is not the patch that was planned, so nothing was done; call the tool again.")
    left = iter(places)
    return tuple(
        PatchTarget(section, next(left), next(left) if count > 1 else None)
        for section, count in zip(sections, counts, strict=True)
    )


def places_of(chosen: Iterable[PatchTarget]) -> list[ResolvedPath]:
    return [place for target in chosen for place in target.places]


def read_target(files: Files, target: PatchTarget) -> tuple[FileState | None, ...]:
    return tuple(files.read_or_none(place) for place in target.places)


def plan_steps(
    target: PatchTarget, befores: tuple[FileState | None, ...], known: Fingerprint | None
) -> list[FileStep]:
    """Plan the steps from the current files; `known`: the first file as the session last read it."""
    before, place = befores[0], target.place
    match target.section:
        case AddFile(content=content):
            if before is not None:
                raise ToolError(f"{place.name} exists already: use Update File to change it.")
            return [FileStep(place, None, encode(content, "patchText"))]
        case DeleteFile():
            return [FileStep(place, _require_known(place, before, known), None)]
        case UpdateFile() as update:
            return _update_steps(target, update, befores, known)
        case _:
            assert_never(target.section)


def target_diff(target: PatchTarget, steps: Sequence[FileStep]) -> str:
    """Return a unified diff; a moved file is shown once, under its new name."""
    before = next((step.mode_from or step.before for step in steps if step.mode_from or step.before), None)
    after = next((step.after for step in steps if step.after is not None), b"")
    old = before.data.decode("utf-8", "replace") if before else ""
    moved = "" if target.to is None else f"rename from {target.place.name}\nrename to {target.to.name}\n"
    return moved + unified_diff((target.to or target.place).name, old, after.decode("utf-8", "replace"))


def _section_paths(section: Section) -> list[str]:
    moved = section.move_to if isinstance(section, UpdateFile) else None
    return [section.path] if moved is None else [section.path, moved]


def _require_known(place: ResolvedPath, before: FileState | None, known: Fingerprint | None) -> FileState:
    if before is None:
        raise MissingFile(f"{place.name} does not exist; check the path.")
    if known is None:
        raise ToolError(f"{place.name} was not read in this session: read it before you delete it.")
    if known.sha256 != before.fingerprint.sha256:
        raise stale_file_error(place)
    return before


def _update_steps(
    target: PatchTarget, update: UpdateFile, befores: tuple[FileState | None, ...], known: Fingerprint | None
) -> list[FileStep]:
    before, place = befores[0], target.place
    if before is None:
        raise MissingFile(f"{place.name} does not exist: check the path, or use Add File to make it.")
    if known is not None and known.sha256 != before.fingerprint.sha256:
        raise stale_file_error(place)
    after = _patch_content(place, before, update)
    if target.to is None:
        return [FileStep(place, before, after)]
    if befores[1] is not None:
        raise ToolError(f"{target.to.name} exists already: move {place.name} to another name.")
    return [FileStep(target.to, None, after, before), FileStep(place, before, None)]


def _patch_content(place: ResolvedPath, before: FileState, update: UpdateFile) -> bytes:
    if not update.hunks:
        return before.data
    if is_binary(before.data):
        raise ToolError(f"{place.name} is a binary file; change it with a command.")
    return encode(apply_hunks(decode(before.data, place.name), update.hunks), "patchText")
