"""Bind the sections of a patch to real files, and plan the steps of each."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.file.diff import unified
from asyncagents.tools.file.edit_plan import surprise
from asyncagents.tools.file.files import Files, Missing
from asyncagents.tools.file.fingerprint import Content, Stamp
from asyncagents.tools.file.path import Place
from asyncagents.tools.file.text import decode, encode, is_binary
from asyncagents.tools.patch.apply import applied
from asyncagents.tools.patch.commit import Step
from asyncagents.tools.patch.parse import AddFile, DeleteFile, Section, UpdateFile


class Target(Struct, frozen=True):
    section: Section
    place: Place
    to: Place | None = None
    """The new path of a moved file."""

    @property
    def places(self) -> tuple[Place, ...]:
        return (self.place,) if self.to is None else (self.place, self.to)

    @property
    def told(self) -> str:
        match self.section:
            case AddFile():
                return f"A {self.place.name}"
            case DeleteFile():
                return f"D {self.place.name}"
            case UpdateFile():
                return f"M {self.place.name}" if self.to is None else f"R {self.place.name} -> {self.to.name}"
            case _:
                assert_never(self.section)


def targets(files: Files, sections: Sequence[Section], directory: str) -> tuple[Target, ...]:
    places: list[Place] = []
    for section in sections:
        places += (files.place(path, directory) for path in _paths(section))
    named: set[str] = set()
    for place in places:
        if place.path in named:
            raise ToolError(f"{place.name} is named twice in the patch: put its changes into one section.")
        named.add(place.path)
    return bound(sections, places)


def bound(sections: Sequence[Section], places: Sequence[Place]) -> tuple[Target, ...]:
    """Bind sections to their places, given in the same order. Raises `ToolError` if the counts differ."""
    counts = [len(_paths(section)) for section in sections]
    if sum(counts) != len(places):
        raise ToolError("This is not the patch that was planned, so nothing was done; call the tool again.")
    left = iter(places)
    return tuple(
        Target(section, next(left), next(left) if count > 1 else None)
        for section, count in zip(sections, counts, strict=True)
    )


def places_of(chosen: Iterable[Target]) -> list[Place]:
    return [place for target in chosen for place in target.places]


def look(files: Files, target: Target) -> tuple[Content | None, ...]:
    return tuple(files.read_or_none(place) for place in target.places)


def made(target: Target, befores: tuple[Content | None, ...], known: Stamp | None) -> list[Step]:
    """Plan the steps from the current files; `known`: the first file as the session last read it."""
    before, place = befores[0], target.place
    match target.section:
        case AddFile(content=content):
            if before is not None:
                raise ToolError(f"{place.name} exists already: use Update File to change it.")
            return [Step(place, None, encode(content, "patchText"))]
        case DeleteFile():
            return [Step(place, _known(place, before, known), None)]
        case UpdateFile() as update:
            return _updated(target, update, befores, known)
        case _:
            assert_never(target.section)


def shown(target: Target, steps: Sequence[Step]) -> str:
    """Return a unified diff; a moved file is shown once, under its new name."""
    before = next((step.like or step.before for step in steps if step.like or step.before), None)
    after = next((step.after for step in steps if step.after is not None), b"")
    old = before.data.decode("utf-8", "replace") if before else ""
    moved = "" if target.to is None else f"rename from {target.place.name}\nrename to {target.to.name}\n"
    return moved + unified((target.to or target.place).name, old, after.decode("utf-8", "replace"))


def _paths(section: Section) -> list[str]:
    moved = section.move_to if isinstance(section, UpdateFile) else None
    return [section.path] if moved is None else [section.path, moved]


def _known(place: Place, before: Content | None, known: Stamp | None) -> Content:
    if before is None:
        raise Missing(f"{place.name} does not exist; check the path.")
    if known is None:
        raise ToolError(f"{place.name} was not read in this session: read it before you delete it.")
    if known.sha256 != before.stamp.sha256:
        raise surprise(place)
    return before


def _updated(
    target: Target, update: UpdateFile, befores: tuple[Content | None, ...], known: Stamp | None
) -> list[Step]:
    before, place = befores[0], target.place
    if before is None:
        raise Missing(f"{place.name} does not exist: check the path, or use Add File to make it.")
    if known is not None and known.sha256 != before.stamp.sha256:
        raise surprise(place)
    after = _patched(place, before, update)
    if target.to is None:
        return [Step(place, before, after)]
    if befores[1] is not None:
        raise ToolError(f"{target.to.name} exists already: move {place.name} to another name.")
    return [Step(target.to, None, after, before), Step(place, before, None)]


def _patched(place: Place, before: Content, update: UpdateFile) -> bytes:
    if not update.hunks:
        return before.data
    if is_binary(before.data):
        raise ToolError(f"{place.name} is a binary file; change it with a command.")
    return encode(applied(decode(before.data, place.name), update.hunks), "patchText")
