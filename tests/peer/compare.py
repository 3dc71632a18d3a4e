"""What two servers answered, side by side: every key, every type, every value that can be the same."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

TIMES = range(1_600_000_000_000, 4_000_000_000_000)
IDS = re.compile(r"\b(ses|msg|prt|per|que|evt|call|tool|err|prj|wrk)_[0-9A-Za-z]{4,}\b")
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
HASH = re.compile(r"\b[0-9a-f]{40}\b")
CURSOR = re.compile(r"before=[\w%-]+")
OWN = {
    "slug": "<slug>",
    "version": "<version>",
    "cursor": "<cursor>",
    "callID": "<call>",
    "date": "<date>",
    "x-request-id": "<request>",
}
NAMED = ("id", "name")


class Difference(Struct, frozen=True):
    """`kind` is missing, added, type, value or length; `real` and `ours` say what was there."""

    where: str
    kind: str
    real: Any = None
    ours: Any = None

    def __str__(self) -> str:
        match self.kind:
            case "missing":
                return f"{self.where} missing: {self.real!r:.100}"
            case "added":
                return f"{self.where} added: {self.ours!r:.100}"
            case _:
                return f"{self.where} {self.kind}: {self.real!r:.100} → {self.ours!r:.100}"


def plain(value: Any, places: Mapping[str, str], key: str = "") -> Any:
    """Without what differs from run to run: ids, times, places (by their longest names first), versions."""
    match value:
        case dict():
            return {plain(name, places): plain(each, places, name) for name, each in value.items()}
        case list():
            return [plain(each, places) for each in value]
        case str():
            return OWN[key] if key in OWN else _plain_text(value, places)
        case int() if value in TIMES:
            return "<time>"
        case _:
            return value


def _plain_text(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        text = text.replace(place, name)
    text = IDS.sub(r"<\1>", text)
    text = CURSOR.sub("before=<cursor>", text)
    return HASH.sub("<hash>", ISO.sub("<when>", text))


def compared(real: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Difference]:
    """Answer by answer; of two with different statuses only that is told, they mean different things."""
    for name in (*real, *(name for name in ours if name not in real)):
        if name not in ours:
            yield Difference(name, "missing", real=real[name])
        elif name not in real:
            yield Difference(name, "added", ours=ours[name])
        elif real[name].get("status") != ours[name].get("status"):
            yield Difference(f"{name}.status", "value", _told(real[name]), _told(ours[name]))
        else:
            yield from differences(real[name], ours[name], name)


def _told(answer: Mapping[str, Any]) -> str:
    return f"{answer.get('status')} {answer.get('body')}"


def differences(real: Any, ours: Any, where: str) -> Iterator[Difference]:
    match real, ours:
        case dict(), dict():
            yield from _keys(real, ours, where)
        case list(), list():
            yield from _elements(real, ours, where)
        case _ if _type(real) != _type(ours):
            yield Difference(where, "type", real, ours)
        case _ if real != ours:
            yield Difference(where, "value", real, ours)


def _keys(real: dict[str, Any], ours: dict[str, Any], where: str) -> Iterator[Difference]:
    for key in (*real, *(key for key in ours if key not in real)):
        inner = f"{where}.{key}"
        if key not in ours:
            yield Difference(inner, "missing", real=real[key])
        elif key not in real:
            yield Difference(inner, "added", ours=ours[key])
        else:
            yield from differences(real[key], ours[key], inner)


def _elements(real: list[Any], ours: list[Any], where: str) -> Iterator[Difference]:
    """One by one; by name where they have one. The rest of a longer list is told by its length."""
    name = next((name for name in NAMED if _named(real, name) and _named(ours, name)), None)
    if name is not None:
        yield from _keys({each[name]: each for each in real}, {each[name]: each for each in ours}, where)
        return
    if len(real) != len(ours):
        yield Difference(where, "length", [_kind(each) for each in real], [_kind(each) for each in ours])
        yield from _kinds(real, ours, where)
        return
    for number, (one, other) in enumerate(zip(real, ours, strict=True)):
        yield from differences(one, other, f"{where}[{number}]")


def _kinds(real: list[Any], ours: list[Any], where: str) -> Iterator[Difference]:
    """Lists of different lengths: the shape of the first of each kind that both have."""
    firsts = {_kind(each): each for each in reversed(ours)}
    for kind, each in {_kind(each): each for each in reversed(real)}.items():
        if kind in firsts and isinstance(each, dict):
            found = differences(each, firsts[kind], f"{where}[{kind}]")
            yield from (one for one in found if one.kind != "value")


def _named(elements: list[Any], name: str) -> bool:
    names = [each.get(name) if isinstance(each, dict) else None for each in elements]
    told = all(isinstance(each, str) and not each.startswith("<") for each in names)
    return bool(names) and told and len(set(names)) == len(names)


def _kind(element: Any) -> str:
    """What an element says it is."""
    if not isinstance(element, dict):
        return str(element)
    about = element.get("info", element)
    return " ".join(str(about[name]) for name in ("role", "type", "permission") if name in about)


def _type(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case _:
            return type(value).__name__


class Known(Struct, frozen=True):
    """A difference that is meant. `where` may have `*` for anything.

    `sometimes`: it depends on the machine, or on what happens first.
    """

    where: str
    why: str
    sometimes: bool = False

    def covers(self, difference: Difference) -> bool:
        wanted = ".*".join(map(re.escape, self.where.split("*")))
        return re.fullmatch(wanted, f"{difference.where} {difference.kind}") is not None


def because(why: str, *places: str, sometimes: bool = False) -> tuple[Known, ...]:
    return tuple(Known(where, why, sometimes) for where in places)


def unexplained(found: Iterable[Difference], known: Iterable[Known]) -> list[str]:
    """Differences that nobody meant, and those meant that are no more."""
    found, known = list(found), list(known)
    strange = [str(each) for each in found if not any(one.covers(each) for one in known)]
    past = [
        f"no longer differs: {one.where}"
        for one in known
        if not one.sometimes and not any(map(one.covers, found))
    ]
    return [*strange, *past]
