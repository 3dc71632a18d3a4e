"""Generates wire nouns from their own types."""

from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from asyncagents.domain.conversation.failure import Failure, KnownFailure

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
json_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_plain: dict[Any, st.SearchStrategy[Any]] = {
    Any: json_values,
    NoneType: st.none(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(-(2**53), 2**53),
    str: st.text(max_size=8),
}


@cache
def nouns(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a struct, a union of structs, or whatever a field of theirs may be."""
    if kind is Failure:
        return nouns(KnownFailure)
    if hasattr(kind, "__supertype__"):
        return nouns(kind.__supertype__)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _structs(kind)
    return _plain[kind] if kind in _plain else _containers(kind)


def _structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: nouns(field.type) for field in msgspec.structs.fields(kind)})


def _containers(kind: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of([nouns(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(nouns(args[0]), max_size=3).map(tuple)
    assert origin is dict, kind
    return st.dictionaries(st.text(max_size=5), nouns(args[1]), max_size=3)
