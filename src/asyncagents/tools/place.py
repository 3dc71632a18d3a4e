"""Where a path leads: a real name in the project, or one outside of it."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.domain.permission import guarded
from asyncagents.engine.tool import Ask
from asyncagents.tools.outside import file_ask, folder_ask, is_shown


class Inside(Struct, frozen=True, tag="inside"):
    root: str
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """As rules and people name it: relative to the project."""
        return "/".join(self.parts) or "."

    @property
    def path(self) -> str:
        return "/".join((self.root.rstrip("/"), *self.parts)) or "/"


class Outside(Struct, frozen=True, tag="outside"):
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


Place: TypeAlias = Inside | Outside


def outside_ask(place: Outside, *, folder: bool = False, change: bool = False) -> Ask:
    """To leave the project needs leave. `folder`: to look through all of it."""
    return folder_ask(place.name) if folder else file_ask(place.path, change=change)


def read_asks(permission: str, place: Place, *, folder: bool = False) -> tuple[Ask, ...]:
    """To look at a place. "Always" is for this name alone: the rules ask only about special ones."""
    always = (place.name,) if is_shown(place.name) else ()
    ask = Ask(permission, (place.name,), always, {"filepath": place.path}, exact=bool(always))
    return (outside_ask(place, folder=folder), ask) if isinstance(place, Outside) else (ask,)


def change_ask(places: Sequence[Place], metadata: dict[str, Any]) -> Ask:
    """To change files. "Always" is for all files of the project but those that could do anything later; of
    files outside it is for these alone."""
    names = tuple(place.name for place in places)
    if any(guarded("edit", name) for name in names):
        return Ask("edit", names, metadata=metadata)
    if not any(isinstance(place, Outside) for place in places):
        return Ask("edit", names, always=("*",), metadata=metadata)
    shown = all(map(is_shown, names))
    return Ask("edit", names, names if shown else (), metadata, exact=shown, narrow=True)


def edit_asks(place: Place, *, diff: str, before: str) -> tuple[Ask, ...]:
    """To change a file. `before` binds the answer to the content that was shown."""
    ask = change_ask((place,), {"filepath": place.path, "diff": diff, "before": before})
    return (outside_ask(place, change=True), ask) if isinstance(place, Outside) else (ask,)
