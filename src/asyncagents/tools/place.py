"""Where a path leads: a real name in the project, or one outside of it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.domain.guarded import Guard
from asyncagents.domain.permission import GUARDED_PLACE
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


def read_asks(
    permission: str, place: Place, *, folder: bool = False, guard: Guard | None = None
) -> tuple[Ask, ...]:
    """To look at a place. "Always" is for this name alone: the rules ask only about special ones."""
    guard = guard if guard is not None and guard.level != "guarded" else None
    always = (place.name,) if guard is None and is_shown(place.name) else ()
    metadata = {"filepath": place.path, **_reasons(guard)}
    ask = Ask(permission, (place.name,), always, metadata, exact=bool(always), also=_also(guard))
    return (outside_ask(place, folder=folder), ask) if isinstance(place, Outside) else (ask,)


def edit_asks(
    places: Sequence[Place], metadata: Mapping[str, Any], guards: Sequence[Guard | None]
) -> tuple[Ask, ...]:
    """To change files. "Always" is for all files of the project but those that could do anything later; of
    files outside it is for these alone."""
    names = tuple(place.name for place in places)
    outside = tuple(dict.fromkeys(place.path for place in places if isinstance(place, Outside)))
    about = {**metadata, **_reasons(*guards)}
    if any(guards):
        ask = Ask("edit", names, metadata=about, also=(GUARDED_PLACE,))
    elif not outside:
        ask = Ask("edit", names, always=("*",), metadata=about)
    else:
        shown = all(map(is_shown, names))
        ask = Ask("edit", names, names if shown else (), about, exact=shown, narrow=True)
    return (file_ask(*outside, change=True), ask) if outside else (ask,)


def _also(guard: Guard | None) -> tuple[str, ...]:
    return () if guard is None else (GUARDED_PLACE,)


def _reasons(*guards: Guard | None) -> dict[str, list[str]]:
    """Why a person is asked."""
    reasons = list(dict.fromkeys(guard.why for guard in guards if guard is not None))
    return {"guarded": reasons} if reasons else {}
