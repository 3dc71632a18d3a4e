"""Where a path leads: a real name in the project, or one outside of it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.domain.guarded import Guard
from asyncagents.domain.permission import GUARDED_PLACE
from asyncagents.engine.tool import Ask

_WILD = frozenset("*?")


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


def outside_ask(place: Outside, *, folder: bool = False) -> Ask:
    """To leave the project needs leave; a name with a wildcard in it cannot be allowed for always."""
    parent = place.name if folder else "/" + "/".join(place.parts[:-1])
    pattern = f"{parent.rstrip('/')}/*"
    return Ask(
        "external_directory",
        (pattern,),
        always=() if _WILD & set(parent) else (pattern,),
        metadata={"filepath": place.path, "parentDir": parent},
    )


def read_asks(
    permission: str, place: Place, *, folder: bool = False, guard: Guard | None = None
) -> tuple[Ask, ...]:
    """To look at a place. "Always" is for this name alone: the rules ask only about special ones."""
    guard = guard if guard is not None and guard.level != "guarded" else None
    always = () if guard or _WILD & set(place.name) else (place.name,)
    metadata = {"filepath": place.path, **_reasons(guard)}
    ask = Ask(permission, (place.name,), always=always, metadata=metadata, also=_also(guard))
    return (outside_ask(place, folder=folder), ask) if isinstance(place, Outside) else (ask,)


def edit_asks(
    places: Sequence[Place], metadata: Mapping[str, Any], guards: Sequence[Guard | None]
) -> tuple[Ask, ...]:
    """To change files. "Always" is not offered for what could do anything later."""
    names = tuple(place.name for place in places)
    guard = next((each for each in guards if each is not None), None)
    outside = {ask.patterns: ask for ask in map(outside_ask, _outside(places))}
    ask = Ask(
        "edit",
        names,
        always=() if guard else ("*",),
        metadata={**metadata, **_reasons(*guards)},
        also=_also(guard),
    )
    return (*outside.values(), ask)


def _outside(places: Sequence[Place]) -> list[Outside]:
    return [place for place in places if isinstance(place, Outside)]


def _also(guard: Guard | None) -> tuple[str, ...]:
    return () if guard is None else (GUARDED_PLACE,)


def _reasons(*guards: Guard | None) -> dict[str, list[str]]:
    """Why a person is asked."""
    reasons = list(dict.fromkeys(guard.why for guard in guards if guard is not None))
    return {"guarded": reasons} if reasons else {}
