"""Find the keys of a file that have no effect: unknown ones, and those that only OpenCode uses."""

from collections.abc import Iterator
from typing import Any

import msgspec.inspect as mi

from asyncagents.config.check import ROOT, fits, mark_of
from asyncagents.config.shape import Mark
from asyncagents.config.tree import KeyPath


def meaningless(data: Any) -> set[KeyPath]:
    """Return the paths of keys without effect; values of a wrong type are left to the check."""
    return set(_below(data, ROOT, ()))


def _below(value: Any, kind: mi.Type, path: KeyPath) -> Iterator[KeyPath]:
    match kind:
        case mi.Metadata(type=inner):
            yield from _below(value, inner, path)
        case mi.UnionType(types=types):
            for inner in [inner for inner in types if fits(value, inner)][:1]:
                yield from _below(value, inner, path)
        case mi.DictType(value_type=inner) if isinstance(value, dict):
            for key, below in value.items():
                yield from _below(below, inner, (*path, key))
        case mi.StructType() if isinstance(value, dict):
            yield from _of_object(value, kind, path)


def _of_object(value: dict[str, Any], kind: mi.StructType, path: KeyPath) -> Iterator[KeyPath]:
    kinds = {field.encode_name: field.type for field in kind.fields}
    for key, below in value.items():
        if key in kinds and mark_of(kinds[key]) is not Mark.INERT:
            yield from _below(below, kinds[key], (*path, key))
        elif key in kinds or kind.forbid_unknown_fields:
            yield (*path, key)
