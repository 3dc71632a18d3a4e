"""Check the values of one file against the shape: a wrong type is an error, an unknown key a warning."""

import json
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, NoReturn

import msgspec.inspect as mi

from asyncagents.config.file.shape import MARK, ConfigFile, Mark
from asyncagents.config.paths import Family
from asyncagents.config.tree import KeyPath, dotted_path
from asyncagents.errors import ConfigError

ROOT = mi.type_info(ConfigFile)
# An open object accepts any key, so only a key very similar to a known one gets a warning.
_CLOSE, _VERY_CLOSE = 0.6, 0.85

_TYPE_NAMES: dict[type[mi.Type], str] = {
    mi.DictType: "an object",
    mi.ListType: "a list",
    mi.NoneType: "null",
    mi.StrType: "a string",
    mi.StructType: "an object",
    mi.TupleType: "a list of a name and an object",
}


def check_data(
    data: Any, label: str, *, family: Family, secret: Callable[[KeyPath], bool]
) -> tuple[dict[str, Any], list[str]]:
    """Return the effective data and the warnings; raises `ConfigError` at the first value of a wrong type.

    An error does not quote a value for which `secret` is true.
    """
    checker = _Checker(label, family=family, secret=secret)
    return checker.check(data, ROOT, ()), checker.warnings


def suggestion(word: str, known: Iterable[str], *, cutoff: float = _CLOSE) -> str | None:
    """Return the known word that was probably meant, ignoring case; None if none is similar."""
    by_folded = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


class _Checker:
    def __init__(self, label: str, *, family: Family, secret: Callable[[KeyPath], bool]) -> None:
        self._label = label
        self._family = family
        self._secret = secret
        self.warnings: list[str] = []

    def check(self, value: Any, kind: mi.Type, path: KeyPath) -> Any:
        if not matches_type(value, kind):
            self._refuse(value, kind, path)
        match kind:
            case mi.Metadata(type=inner):
                return self.check(value, inner, path)
            case mi.UnionType(types=types):
                return self.check(value, next(inner for inner in types if matches_type(value, inner)), path)
            case mi.StructType():
                return self._check_object(value, kind, path)
            case mi.DictType(value_type=inner):
                return {key: self.check(below, inner, (*path, key)) for key, below in value.items()}
            case mi.ListType(item_type=inner):
                return [self.check(item, inner, (*path, str(index))) for index, item in enumerate(value)]
            case _:
                return value

    def _check_object(self, value: dict[str, Any], kind: mi.StructType, path: KeyPath) -> dict[str, Any]:
        fields = {field.encode_name: field.type for field in kind.fields}
        counts: dict[str, Any] = {}
        for key, below in value.items():
            if key not in fields:
                self._warn_unknown_key((*path, key), fields, closed=kind.forbid_unknown_fields)
                if not kind.forbid_unknown_fields:
                    counts[key] = below
            elif mark_of(fields[key]) is not Mark.INERT:
                counts[key] = self._check_known_key(below, fields[key], (*path, key))
        return counts

    def _check_known_key(self, value: Any, kind: mi.Type, path: KeyPath) -> Any:
        if self._family == "opencode" and mark_of(kind) is Mark.OURS:
            self.warnings.append(
                f"{self._label}: OpenCode refuses the key {dotted_path(path)}: write it in asyncagents.json"
            )
        return self.check(value, kind, path)

    def _warn_unknown_key(self, path: KeyPath, fields: dict[str, mi.Type], *, closed: bool) -> None:
        current = [name for name, kind in fields.items() if mark_of(kind) is not Mark.OLD]
        meant = suggestion(path[-1], current, cutoff=_CLOSE if closed else _VERY_CLOSE)
        if not closed and meant is None:
            return
        means = "is ignored" if closed else "is passed on"
        hint = f"did you mean {json.dumps(meant)}?" if meant else "remove it or correct its name"
        self.warnings.append(f"{self._label}: the key {dotted_path(path)} is unknown and {means}: {hint}")

    def _refuse(self, value: Any, kind: mi.Type, path: KeyPath) -> NoReturn:
        words = [word for inner in _alternatives(kind) for word in _type_names(inner)]
        got, hint = _describe_value(value), ""
        if got == "a number" and any("number" in word for word in words):
            got = json.dumps(value)
        if isinstance(value, str) and words[0].startswith('"') and not self._secret(path):
            got = json.dumps(value, ensure_ascii=False)
            meant = suggestion(value, [word.strip('"') for word in words])
            hint = f": did you mean {json.dumps(meant)}?" if meant else ""
        where = dotted_path(path) if path else "the whole"
        raise ConfigError(f"{self._label}: {where} must be {_join_alternatives(words)}, not {got}{hint}")


def matches_type(value: Any, kind: mi.Type) -> bool:
    """Return whether a value has the type, without checking its elements."""
    match kind:
        case mi.Metadata(type=inner):
            return matches_type(value, inner)
        case mi.UnionType(types=types):
            return any(matches_type(value, inner) for inner in types)
        case mi.StructType() | mi.DictType():
            return isinstance(value, dict)
        case mi.ListType():
            return isinstance(value, list)
        case mi.TupleType(item_types=types):
            return (
                isinstance(value, list) and len(value) == len(types) and all(map(matches_type, value, types))
            )
        case _:
            return _matches_scalar(value, kind)


def _matches_scalar(value: Any, kind: mi.Type) -> bool:
    match kind:
        case mi.StrType():
            return isinstance(value, str)
        case mi.BoolType():
            return isinstance(value, bool)
        case mi.IntType():
            return type(value) is int and _is_within(value, kind)
        case mi.FloatType():
            return type(value) in {int, float} and _is_within(value, kind)
        case mi.LiteralType(values=values):
            return isinstance(value, str) and value in values
        case mi.NoneType():
            return value is None
        case mi.AnyType():
            return True
        case _:
            raise TypeError(f"the shape has an unsupported type: {kind}")


def _is_within(value: float, kind: mi.IntType | mi.FloatType) -> bool:
    if kind.gt is not None and not value > kind.gt:
        return False
    return (kind.ge is None or value >= kind.ge) and (kind.le is None or value <= kind.le)


def _alternatives(kind: mi.Type) -> tuple[mi.Type, ...]:
    match kind:
        case mi.Metadata(type=inner):
            return _alternatives(inner)
        case mi.UnionType(types=types):
            return tuple(inner for one in types for inner in _alternatives(one))
        case _:
            return (kind,)


def _type_names(kind: mi.Type) -> list[str]:
    match kind:
        case mi.LiteralType(values=values):
            return [json.dumps(value) for value in values]
        case mi.BoolType():
            return ["true", "false"]
        case mi.IntType():
            return [f"a whole number{_bounds(kind)}"]
        case mi.FloatType():
            return [f"a number{_bounds(kind)}"]
        case _:
            return [_TYPE_NAMES[type(kind)]]


def _bounds(kind: mi.IntType | mi.FloatType) -> str:
    match kind.ge, kind.gt, kind.le:
        case None, None, _:
            return ""
        case None, above, highest:
            return f" above {above:g}" if highest is None else f" above {above:g}, up to {highest:,.0f}"
        case lowest, _, None:
            return f" of {lowest:g} or more"
        case lowest, _, highest:
            return f" from {lowest:g} to {highest:,.0f}"


def _join_alternatives(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _describe_value(value: Any) -> str:
    match value:
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def mark_of(kind: mi.Type) -> Mark | None:
    return (kind.extra or {}).get(MARK) if isinstance(kind, mi.Metadata) else None


def inert_keys(data: Any) -> set[KeyPath]:
    """Return the paths of keys without effect; values of a wrong type are left to the check."""
    return set(_find_inert(data, ROOT, ()))


def _find_inert(value: Any, kind: mi.Type, path: KeyPath) -> Iterator[KeyPath]:
    match kind:
        case mi.Metadata(type=inner):
            yield from _find_inert(value, inner, path)
        case mi.UnionType(types=types):
            for inner in [inner for inner in types if matches_type(value, inner)][:1]:
                yield from _find_inert(value, inner, path)
        case mi.DictType(value_type=inner) if isinstance(value, dict):
            for key, below in value.items():
                yield from _find_inert(below, inner, (*path, key))
        case mi.StructType() if isinstance(value, dict):
            yield from _find_inert_in_object(value, kind, path)


def _find_inert_in_object(value: dict[str, Any], kind: mi.StructType, path: KeyPath) -> Iterator[KeyPath]:
    kinds = {field.encode_name: field.type for field in kind.fields}
    for key, below in value.items():
        if key in kinds and mark_of(kinds[key]) is not Mark.INERT:
            yield from _find_inert(below, kinds[key], (*path, key))
        elif key in kinds or kind.forbid_unknown_fields:
            yield (*path, key)
