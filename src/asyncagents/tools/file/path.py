"""Resolved paths, inside or outside of the project, and the asks for them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.domain.agent.guarded import Guard
from asyncagents.domain.agent.permission import GUARDED_PLACE
from asyncagents.engine.tool import Ask
from asyncagents.tools.file.external_directory import file_ask, folder_ask, is_displayable


class InsidePath(Struct, frozen=True, tag="inside"):
    root: str
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The path relative to the project, as rules and people name it."""
        return "/".join(self.parts) or "."

    @property
    def path(self) -> str:
        return "/".join((self.root.rstrip("/"), *self.parts)) or "/"


class OutsidePath(Struct, frozen=True, tag="outside"):
    parts: tuple[str, ...]

    @property
    def root(self) -> str:
        return "/"

    @property
    def name(self) -> str:
        return "/" + "/".join(self.parts)

    @property
    def path(self) -> str:
        return self.name


ResolvedPath: TypeAlias = InsidePath | OutsidePath


def outside_ask(place: OutsidePath, *, folder: bool = False, change: bool = False) -> Ask:
    """Ask for a path outside the project; `folder`: for a folder and all below it."""
    return folder_ask(place.name) if folder else file_ask(place.path, change=change)


def read_asks(
    permission: str, place: ResolvedPath, *, folder: bool = False, guard: Guard | None = None
) -> tuple[Ask, ...]:
    """Ask to read a path. "Always" covers this name alone: the rules ask only about special ones."""
    guard = guard if guard is not None and guard.level != "guarded" else None
    always = (place.name,) if guard is None and is_displayable(place.name) else ()
    metadata = {"filepath": place.path, **_reasons(guard)}
    ask = Ask(permission, (place.name,), always, metadata, exact=bool(always), also=_extra_permissions(guard))
    return (outside_ask(place, folder=folder), ask) if isinstance(place, OutsidePath) else (ask,)


def edit_asks(
    places: Sequence[ResolvedPath], metadata: Mapping[str, Any], guards: Sequence[Guard | None]
) -> tuple[Ask, ...]:
    """Ask to change files. "Always" covers all files of the project, or these alone if some are outside.

    Guarded files cannot be approved for good.
    """
    names = tuple(place.name for place in places)
    outside = tuple(dict.fromkeys(place.path for place in places if isinstance(place, OutsidePath)))
    about = {**metadata, **_reasons(*guards)}
    if any(guards):
        ask = Ask("edit", names, metadata=about, also=(GUARDED_PLACE,))
    elif not outside:
        ask = Ask("edit", names, always=("*",), metadata=about)
    else:
        shown = all(map(is_displayable, names))
        ask = Ask("edit", names, names if shown else (), about, exact=shown, narrow=True)
    return (file_ask(*outside, change=True), ask) if outside else (ask,)


def _extra_permissions(guard: Guard | None) -> tuple[str, ...]:
    return () if guard is None else (GUARDED_PLACE,)


def _reasons(*guards: Guard | None) -> dict[str, list[str]]:
    """Return metadata that says why the guards ask."""
    reasons = list(dict.fromkeys(guard.why for guard in guards if guard is not None))
    return {"guarded": reasons} if reasons else {}
