"""Schemas without references: what they accept stays the same, and they are finite."""

from typing import Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from asyncagents.domain.self_contained import MOST_BYTES, inline_references, schema_of_type
from tests.support.domain.strategy import json_values


class Leaf(Struct, frozen=True):
    """A leaf of the tests."""

    name: str
    kind: Literal["oak", "elm"] = "oak"


class Cat(Struct, frozen=True, tag="cat"):
    lives: int


class Dog(Struct, frozen=True, tag="dog"):
    names: list[str]


class Branch(Struct, frozen=True):
    leaves: list[Leaf]
    pet: Cat | Dog
    first: Leaf = Leaf("first")
    other: Leaf | None = None


class Tree(Struct, frozen=True):
    """A tree of the tests."""

    leaf: Leaf
    below: list["Tree"] = []


LEAVES = st.builds(
    lambda name, kind: {"name": name, "kind": kind}, st.text(), st.sampled_from(["oak", "elm", "x"])
)
BRANCHES = st.fixed_dictionaries(
    {
        "leaves": st.lists(LEAVES | json_values, max_size=2),
        "pet": st.sampled_from([{"type": "cat", "lives": 9}, {}]),
    },
    optional={"first": LEAVES | json_values, "other": LEAVES | st.none()},
)


def words_in(value: Any) -> set[str]:
    """The keywords and names at any depth."""
    match value:
        case dict():
            return set(value).union(*map(words_in, value.values()))
        case list():
            return set().union(*map(words_in, value))
        case _:
            return set()


@given(BRANCHES | json_values)
def test_a_type_accepts_the_same_without_references(value: Any) -> None:
    before, after = msgspec.json.schema(Branch), schema_of_type(Branch)

    assert not {"$ref", "$defs", "discriminator"} & words_in(after)
    assert jsonschema_rs.is_valid(after, value) == jsonschema_rs.is_valid(before, value)


def test_the_fields_of_a_type_are_at_the_top_and_notes_are_kept() -> None:
    schema = schema_of_type(Branch)

    assert list(schema["properties"]) == ["leaves", "pet", "first", "other"]
    assert schema["properties"]["leaves"]["items"]["description"] == "A leaf of the tests."
    assert schema["properties"]["first"]["default"] == {"name": "first", "kind": "oak"}


def test_a_type_that_contains_itself_is_written_once_and_then_named() -> None:
    below = schema_of_type(Tree)["properties"]["below"]["items"]
    inner = below["properties"]["below"]["items"]

    assert below["properties"]["leaf"]["properties"]["name"] == {"type": "string"}
    assert inner == {"type": "object", "description": "The same as the Tree that it is in."}


@given(
    st.recursive(
        st.just({"leaf": {"name": "a"}}),
        lambda below: st.builds(lambda b: {"leaf": {"name": "b"}, "below": [b]}, below),
    )
)
def test_what_a_recursive_type_accepts_is_still_accepted(value: Any) -> None:
    assert jsonschema_rs.is_valid(schema_of_type(Tree), value)


@pytest.mark.parametrize(
    ("schema", "inlined"),
    [
        (
            {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
            {"properties": {"a": {"type": "string"}}},
        ),
        (
            {"items": {"$ref": "#/definitions/A~1b", "title": "T"}, "definitions": {"A/b": {"title": "U"}}},
            {"items": {"title": "T"}},
        ),
        (
            {"items": {"$ref": "#/$defs/A", "minimum": 1, "title": "T"}, "$defs": {"A": {"type": "integer"}}},
            {"items": {"title": "T", "allOf": [{"type": "integer"}, {"minimum": 1}]}},
        ),
        (
            {"properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}},
            {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        ),
        (
            {"properties": {"$ref": {"type": "string"}, "$defs": {"const": {"$ref": "#/x"}}}, "$defs": {}},
            {"properties": {"$ref": {"type": "string"}, "$defs": {"const": {"$ref": "#/x"}}}},
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "null"}}},
            {"anyOf": [{"type": "null"}]},
        ),
    ],
)
def test_a_local_reference_is_replaced_by_its_definition(
    schema: dict[str, Any], inlined: dict[str, Any]
) -> None:
    assert inline_references(schema) == inlined


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$ref": "#"}},
        {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}},
        {"items": {"$ref": "https://example.test/a.json"}},
        {"items": {"$ref": "#/$defs/none"}},
        {"items": {"$ref": "#anchor"}},
        {"items": {"$ref": 7}},
        {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": True}},
        {"$id": "https://example.test", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {}}},
    ],
)
def test_a_schema_that_cannot_be_written_out_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert inline_references(schema) is schema


def test_a_schema_whose_references_multiply_stays_as_it_is() -> None:
    definitions = {f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 10} for level in range(30)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d30": {"type": "string"}}}

    assert inline_references(schema) is schema
    assert inline_references(schema, recursive=True) is schema


def test_a_schema_that_becomes_too_large_stays_as_it_is() -> None:
    long = {"description": "d" * (MOST_BYTES // 2)}
    schema = {"properties": {name: {"$ref": "#/$defs/A"} for name in "abc"}, "$defs": {"A": long}}

    assert inline_references(schema) is schema


def test_a_schema_that_nests_very_deep_stays_as_it_is() -> None:
    schema: dict[str, Any] = {}
    for _ in range(400):
        schema = {"items": schema}

    assert inline_references(schema) is schema
