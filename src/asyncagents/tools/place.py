"""Where a path leads: a real name in the project, or one outside of it."""

from typing import TypeAlias

from msgspec import Struct

from asyncagents.domain.permission import guarded
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


def read_asks(permission: str, place: Place, *, folder: bool = False) -> tuple[Ask, ...]:
    """To look at a place. "Always" is for this name alone: the rules ask only about special ones."""
    always = () if _WILD & set(place.name) else (place.name,)
    ask = Ask(permission, (place.name,), always=always, metadata={"filepath": place.path})
    return (outside_ask(place, folder=folder), ask) if isinstance(place, Outside) else (ask,)


def lasting_edits(*names: str) -> tuple[str, ...]:
    """What "always" allows from then on; not offered for what could do anything later."""
    return () if any(guarded("edit", name) for name in names) else ("*",)


def edit_asks(place: Place, *, diff: str, before: str) -> tuple[Ask, ...]:
    """To change a file. `before` binds the answer to the content that was shown."""
    metadata = {"filepath": place.path, "diff": diff, "before": before}
    ask = Ask("edit", (place.name,), always=lasting_edits(place.name), metadata=metadata)
    return (outside_ask(place), ask) if isinstance(place, Outside) else (ask,)
